"""One stage of dvc.yaml as a Prefect task.

DVC alone knows whether a stage's outputs on disk are right (`stale`), and
makes them right (`dvc repro`).  Prefect's record of an earlier execution
counts only while DVC vouches for the bytes: otherwise the task is told to
refresh it.  So `Cached` means both: this key has run, and its outputs are
there.
"""

import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from prefect import get_run_logger, task
from prefect.assets import add_asset_metadata, materialize
from prefect.cache_policies import NO_CACHE, CacheKeyFnPolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.events import emit_event
from prefect.tasks import MaterializingTask, Task, exponential_backoff

from stylerl import storage
from stylerl.errors import DataError, StylerlError
from stylerl.pipeline import child, graph, process, stage_runs, workspace

RETRIES = 3  # after 2, 4 and 8 seconds, each up to half longer
KILLED = {-9, 137}  # by signal 9, told by a parent, or as 128 + 9
BUSY = ("is busy, it is being blocked by", "Unable to acquire lock")
SETTLED = 2.0  # seconds from a file's last byte to its renaming
BUSY_PAUSE = 2.0  # seconds before DVC is asked again
HINTS = (  # of DVC's, after every stage
    "To track the changes with git",
    "git add ",
    "To enable auto staging",
    "dvc config core.autostage",
    "Use `dvc push`",
)
CRITICAL = re.compile(r"update (\d+): critical alarm: ([^:]+): (.*)")
ALARM_EVENT = "stylerl.ppo.alarm"
ASSETS = "dvc://stylerl/"  # and a path of the workspace
DVC = (sys.executable, "-m", "dvc", "--wait-for-lock")
T = TypeVar("T")


class StageFailure(StylerlError):
    """A stage failed in a way that trying again cannot help."""


class TransientFailure(StageFailure):
    """A stage failed in a way that may pass: memory, the network."""


def track_data() -> None:
    """Let data.dvc name the data as it is now.

    Raises:
        DataError: there is no data.
        StageFailure: DVC cannot read it.
    """
    if not Path("data").exists():
        raise DataError("data/ does not exist; `stylerl collect` builds it")
    done = _dvc("commit", "--force", "data.dvc")
    _check(done, "track data/")


def _dvc(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DVC, *words], capture_output=True, text=True)


def _check(done: subprocess.CompletedProcess[str], what: str) -> None:
    """Raise StageFailure where DVC could not do it, with what it says."""
    if done.returncode != 0:
        said = storage.refusal(done.stderr) or done.stderr.strip()
        raise StageFailure(f"DVC cannot {what}: {said}")


def _cache_key(_: TaskRunContext, inputs: dict[str, Any]) -> str:
    return f"{inputs['name']}-{inputs['key']}"


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
def stale(refill: bool = True) -> set[str]:
    """The stages, and .dvc files, whose bytes on disk DVC finds wrong.

    With `refill`, where DVC's cache was deleted, what is whole is put there
    again first.

    Raises:
        StageFailure: DVC cannot tell.
    """
    _mark_altered()
    found = _status()
    if refill and "not in cache" in str(found) and (put := _refill_cache()):
        get_run_logger().info(
            "DVC's cache lacked what is in the workspace as dvc.lock has it; "
            "put back, not made again: %s",
            ", ".join(put),
        )
        found = _status()
    return set(found)


def _status() -> dict[str, Any]:
    """What `dvc status` says is wrong, by stage and .dvc file.

    Asked in this process, a fifth of the command's time.  Where that fails,
    the command waits for a lock, or says in DVC's words what is wrong.
    """
    from dvc.repo import Repo

    logging.getLogger("dvc").setLevel(logging.ERROR)  # no bars, no hints
    with suppress(Exception), Repo() as repo:
        return dict(repo.status())
    done = _retry_while_locked(
        lambda: _dvc("status", "--json"),
        lambda done: done.stderr if done.returncode else "",
    )
    _check(done, "tell what is up to date")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _mark_altered() -> None:
    """Let DVC read again what was changed with its time set back.

    A file of the same size and time is the same to DVC.  A program may set
    a file's time, but not the time of its last change, so where these two
    differ it gets the present one.  DVC reads it then, once.
    """
    paths = {out for stage in graph.load_stages() for out in stage.outs}
    for stage in graph.load_stages():
        paths.update(graph.datasets(stage))
    for path in map(Path, paths):
        for file in path.rglob("*") if path.is_dir() else [path]:
            with suppress(OSError):  # not there, or not ours: DVC's to say
                times = file.stat()
                if times.st_ctime - times.st_mtime > SETTLED:
                    os.utime(file)


def _refill_cache() -> list[str]:
    """Put each output that is as dvc.lock has it into DVC's cache; which.

    Of a stage whose outputs all are, the execution is kept there as well,
    by dvc.lock's digests; DVC refuses where a dependency is missing.
    """
    from dvc.repo import Repo

    put = []
    with Repo() as repo, repo.lock:
        for stage in repo.index.stages:
            whole = [out for out in stage.outs if not out.workspace_status()]
            for out in whole:
                if out.use_cache and out.changed_cache():
                    out.commit()
                    put.append(str(out))
            there = all(dep.exists for dep in stage.deps)
            if there and len(whole) == len(stage.outs):
                repo.stage_cache.save(stage)
    return put


def _retry_while_locked(
    attempt: Callable[[], T], error: Callable[[T], str]
) -> T:
    """Try until no other DVC process works on the same files.

    DVC waits by itself for its lock on the repository, but not for the ones
    on paths, which a `dvc repro` by hand holds as long as its stage runs.
    """
    waits = False
    while busy := _blocked_by(error(result := attempt())):
        if not waits:
            get_run_logger().warning(
                "another DVC process works in this folder; waiting for it to "
                "end. DVC says: %s",
                busy,
            )
        waits = True
        time.sleep(BUSY_PAUSE)
        workspace.drop_dead_locks()
    return result


def _blocked_by(error: str) -> str:
    """What DVC says of another process; empty where it was something else."""
    return error.strip() if any(words in error for words in BUSY) else ""


def asset(path: str) -> str:
    """The key of Prefect's asset for a path that DVC made or tracks."""
    return ASSETS + re.sub(r"[^\w./-]", "_", path)


def run_or_reuse(
    stage: graph.Stage, stale: bool
) -> MaterializingTask[[str, str, str], dict[str, Any]]:
    """The task `run_stage` for a stage: what it makes, of what.

    Args:
        stage: of dvc.yaml.
        stale: whether DVC finds its outputs wrong, whatever Prefect knows.
    """
    return run_stage.with_options(
        refresh_cache=stale,
        assets=[asset(out) for out in stage.outs],
        asset_deps=[asset(dep) for dep in graph.datasets(stage)],
    )


@materialize(
    asset("artifacts"),  # until `run_or_reuse` names the stage's own
    by="dvc",
    name="stage",
    task_run_name="{name}",
    cache_policy=CacheKeyFnPolicy(cache_key_fn=_cache_key),
    persist_result=True,
    **RETRY_TRANSIENT,
)
def run_stage(name: str, key: str, parent: str) -> dict[str, Any]:
    """Let DVC bring one stage up to date; its key, outputs and run.

    Args:
        name: the stage in dvc.yaml.
        key: its `graph.stage_key`.
        parent: MLflow run of the flow, empty where there is none.

    Raises:
        TransientFailure: it may work in a moment.
        StageFailure: it will not.
    """
    stage = graph.find_stage(name)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        stage_runs.KEY: key,
        stage_runs.PARENT: parent,
    }

    def work() -> child.ExitStatus:
        return child.run_command(
            [*DVC, "repro", "-s", name], _log, environment
        )

    try:
        outcome = _retry_while_locked(
            work, lambda done: done.tail if done.code else ""
        )
    finally:
        if parent:
            stage_runs.end_children(parent)
    if outcome.code != 0:
        raise _failure(stage, outcome)
    outs, run = graph.outputs(name), stage_runs.stage_run_id(key)
    for path in stage.outs:
        facts = {"md5": outs.get(path), "stage_key": key, "mlflow_run": run}
        add_asset_metadata(asset(path), facts)
    return {"key": key, "outs": outs, "run": run}


def find_runs(
    results: Mapping[str, dict[str, Any]],
    settings: Mapping[str, Any],
    parent: str,
) -> None:
    """Let each stage's result name a run that the store of today has.

    Prefect remembers the run of an earlier execution, and the store may be
    another by now, or a new one.  What it lacks is looked up by its key and
    else logged again, from the files that the stage left.

    Args:
        results: of `run_stage` by stage, changed in place.
        settings: the sections of params.yaml.
        parent: MLflow run of the flow, empty where there is none.
    """
    remembered = [result["run"] for result in results.values()]
    there = stage_runs.still_there(filter(None, remembered))
    for name, result in results.items():
        if result["run"] in there or not parent:
            continue
        stage, key = graph.find_stage(name), result["key"]
        found = stage_runs.stage_run_id(key)
        if not found:
            params = settings.get(name, {})
            found = stage_runs.log_again(stage, key, params, parent)
        result["run"] = found


def _log(line: str) -> None:
    """One line of a stage's output, in the log of its task run.

    A critical alarm is an event as well, related to the flow's run: what an
    automation may cancel.
    """
    if not line.strip().startswith(HINTS):
        get_run_logger().info("%s", line)
    if found := CRITICAL.match(line.strip()):
        update, name, finding = found.groups()
        emit_event(
            ALARM_EVENT,
            resource={
                "prefect.resource.id": f"stylerl.alarm.{_slug(name)}",
                "prefect.resource.name": name,
            },
            payload={"update": int(update), "finding": finding},
        )


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def _failure(stage: graph.Stage, outcome: child.ExitStatus) -> StageFailure:
    """What went wrong, in one message, and whether it may pass."""
    told = re.search(r"exited with (-?\d+)", outcome.tail)
    code = int(told[1]) if told else outcome.code
    prefix = f"stage {stage.name} failed"
    if code in KILLED:
        return TransientFailure(
            f"{prefix}: it was killed (signal 9), most likely for want of "
            "memory; a smaller batch_size or ppo.pass_tokens needs less"
        )
    if code == process.TRANSIENT:
        return TransientFailure(f"{prefix}: {_last_error(outcome.tail)}")
    if code == process.USER_ERROR:
        return StageFailure(f"{prefix}: {_last_error(outcome.tail)}")
    if told is None and (reason := storage.refusal(outcome.tail)):
        return StageFailure(f"{prefix}: {reason}{_kept(stage, outcome.tail)}")
    return StageFailure(f"{prefix} with exit code {code}; its output is above")


def _kept(stage: graph.Stage, tail: str) -> str:
    """What to do where a stage was done, and DVC's cache had no room.

    DVC would run it again, hours of training.  What it left half copied
    takes room that nothing else gives back.
    """
    if not re.search(r"failed to transfer .* -> '.*/\.dvc/cache/", tail):
        return ""
    for half in Path(".dvc/cache").rglob(".*.tmp"):
        half.unlink(missing_ok=True)
    return (
        "; the stage was done, so `dvc commit --force "
        f"{stage.name}` then keeps what it made, and `stylerl run` goes on"
    )


def _last_error(tail: str) -> str:
    """The line that names the stage's exception."""
    lines = re.findall(r"^\w+Error: .*$", tail, re.MULTILINE)
    return lines[-1] if lines else tail
