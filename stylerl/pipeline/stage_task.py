"""One stage of dvc.yaml as a Prefect task.

DVC alone knows whether a stage's outputs are right (`stale`), and makes them
right (`dvc repro`).  Prefect says when, tries again what may pass, and shows
a stage that DVC had nothing to do for as Cached.
"""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.assets import add_asset_metadata, materialize
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed
from prefect.tasks import MaterializingTask, Task, exponential_backoff

from stylerl import config
from stylerl.errors import DataError, StylerlError
from stylerl.pipeline import child, fingerprints, graph, process, stage_runs

RETRIES = 3  # after 2, 4 and 8 seconds, each up to half longer
BUSY = "is busy, it is being blocked by"  # in DVC's words
ANOTHER = (
    "another DVC process works in this folder; wait for it to end, or, where "
    "none does, remove .dvc/tmp/rwlock"
)
KILLED = {-9, 137}  # by signal 9, told by a parent, or as 128 + 9
ALWAYS = ["always changed"]  # all that DVC says of a stage that it calls so
ASSETS = "dvc://stylerl/"  # and a path of the workspace
DVC = (sys.executable, "-m", "dvc", "--wait-for-lock")


class StageFailure(StylerlError):
    """A stage failed in a way that trying again cannot help."""


class TransientFailure(StageFailure):
    """A stage failed in a way that may pass: memory, the network, a lock."""


def track_data() -> None:
    """Record the present state of data/ in data.dvc.

    Raises:
        DataError: there is no data.
        StageFailure: DVC cannot read it.
    """
    if not Path("data").exists():
        raise DataError("data/ does not exist; `stylerl collect` builds it")
    command = [*DVC, "commit", "--force", "data.dvc"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise StageFailure(f"DVC cannot track data/: {done.stderr.strip()}")


def _is_transient(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether a retry makes sense."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, TransientFailure)


RETRY_TRANSIENT: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay_seconds": exponential_backoff(backoff_factor=2),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": _is_transient,
}


@task(
    name="probe",
    task_run_name="probe",
    cache_policy=NO_CACHE,
    **RETRY_TRANSIENT,
)
def stale() -> set[str]:
    """The stages, and .dvc files, that DVC would bring up to date.

    Asked in this process, which takes a fifth of the command's time.

    Raises:
        TransientFailure: another DVC process works in this folder.
        StageFailure: DVC cannot tell.
    """
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo

    logging.getLogger("dvc").setLevel(logging.ERROR)  # no bars, no hints
    try:
        with Repo() as repo:
            status = repo.status()
    except LockError as error:
        raise TransientFailure(f"{ANOTHER}: {error}") from error
    except DvcException as error:
        raise StageFailure(
            f"DVC cannot tell what is up to date: {error}"
        ) from error
    always = status.get(fingerprints.STAGE) == ALWAYS
    if always and not fingerprints.changed(config.load()):
        del status[fingerprints.STAGE]
    return set(status)


def asset(path: str) -> str:
    """The key of Prefect's asset for a path that DVC made or tracks."""
    return ASSETS + re.sub(r"[^\w./-]", "_", path)


def task_of(
    stage: graph.Stage,
) -> MaterializingTask[[str, str, str, bool], Any]:
    """The task `run_stage` with the assets that the stage reads and makes."""
    return run_stage.with_options(
        assets=[asset(out) for out in stage.outs],
        asset_deps=[asset(dep) for dep in graph.datasets(stage)],
    )


@materialize(
    asset("artifacts"),  # until `task_of` names the stage's own
    by="dvc",
    name="stage",
    task_run_name="{name}",
    cache_policy=NO_CACHE,
    **RETRY_TRANSIENT,
)
def run_stage(name: str, key: str, parent: str, stale: bool) -> Any:
    """Let DVC bring one stage up to date; its key, outputs and run.

    The state is named Cached where DVC has nothing to do.

    Args:
        name: the stage in dvc.yaml.
        key: its `graph.stage_key`.
        parent: MLflow run of the flow, empty where there is none.
        stale: whether DVC has something to do.

    Raises:
        TransientFailure: it may work in a moment.
        StageFailure: it will not.
    """
    if not stale:
        return Completed(name="Cached", data=_result(name, key))
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        stage_runs.KEY: key,
        stage_runs.PARENT: parent,
    }
    try:
        outcome = child.run_command(
            [*DVC, "repro", "-s", name], get_run_logger().info, environment
        )
    finally:
        if parent:
            stage_runs.end_children(parent)
    stage = graph.find_stage(name)
    if outcome.code != 0:
        raise _failure(stage, outcome)
    result = _result(name, key)
    for path in stage.outs:
        facts = {"md5": result["outs"].get(path), "stage_key": key}
        facts["mlflow_run"] = result["run"]
        add_asset_metadata(asset(path), facts)
    return result


def _result(name: str, key: str) -> dict[str, Any]:
    """The result of a stage that is up to date.

    `run` is the MLflow run that executed it, None where the store has none.
    """
    run = stage_runs.stage_run_id(key)
    return {"key": key, "outs": graph.outputs(name), "run": run}


def _failure(stage: graph.Stage, outcome: child.ExitStatus) -> StageFailure:
    """The failure in one message, transient or not."""
    told = re.findall(r"exited with (-?\d+)", outcome.tail)
    code = int(told[-1]) if told else outcome.code
    prefix = f"stage {stage.name} failed"
    if code in KILLED:
        return TransientFailure(
            f"{prefix}: it was killed (signal 9), most likely for want of "
            "memory; a smaller batch_size or ppo.pass_tokens needs less"
        )
    if BUSY in outcome.tail:
        return TransientFailure(f"{prefix}: {ANOTHER}")
    if code == process.TRANSIENT:
        return TransientFailure(f"{prefix}: {_last_error(outcome.tail)}")
    if code == process.USER_ERROR:
        return StageFailure(f"{prefix}: {_last_error(outcome.tail)}")
    return StageFailure(f"{prefix} with exit code {code}; its output is above")


def _last_error(tail: str) -> str:
    """The line that names the stage's exception."""
    lines = re.findall(r"^\w+Error: .*$", tail, re.MULTILINE)
    return lines[-1] if lines else tail
