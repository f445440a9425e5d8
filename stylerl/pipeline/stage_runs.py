"""MLflow's runs of flows and stages: recorded, and looked up later.

A flow is a parent run, each stage that does work a child of it; `dvc repro`
alone makes the same stage runs without a parent.  The flow hands its run and
the stage's key down by the environment (PARENT, KEY).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stylerl.pipeline import graph, machine
from stylerl.pipeline.store import asked, best_effort
from stylerl.pipeline.tracking import Run, connect, search

PARENT = "STYLERL_PARENT_RUN"
KEY = "STYLERL_STAGE_KEY"
SCORES = {"base": "base", "before": "sft", "after": "ppo", "gain": "gain"}


@contextmanager
def stage_run(stage: str, params: Mapping[str, Any]) -> Iterator[Run]:
    """The run of one stage, a child of the flow's run where there is one.

    Recorded by itself: the stage's key, its parameters, the digests of its
    inputs, the files that it leaves in metrics/, the machine, the commit,
    time and peak memory.
    """
    declared = graph.find_stage(stage)
    tags = {
        "stage": stage,
        "stage_key": key_of(declared),
        **_origin(f"python -m tasks.{stage}"),
    }
    if parent := os.environ.get(PARENT):
        tags["mlflow.parentRunId"] = parent
    with _running(stage, tags) as run:
        run.log_params(params)
        run.log_inputs(graph.datasets(declared))
        yield run
        for path in declared.outs:
            if path.startswith("metrics/"):
                run.log_file(Path(path))


def key_of(stage: graph.Stage) -> str:
    """The digest that names an execution, from the flow or by itself."""
    return os.environ.get(KEY) or graph.stage_key(stage)


def scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation's metrics for the parent run: before/, after/, gain/."""
    return {
        f"{name}/{key}": value
        for name, model in SCORES.items()
        for key, value in metrics[model].items()
    }


@contextmanager
def flow_run(name: str, params: Mapping[str, Any]) -> Iterator[Run]:
    """The parent run of one flow: all parameters, the lock, the machine."""
    tags = {"flow": "rlhf", **_origin("flows/rlhf.py")}
    with _running(name, tags) as run:
        run.log_params(params)
        if (lock := Path("requirements.lock")).exists():
            run.log_file(lock)
        yield run


def stage_run_id(key: str) -> str | None:
    """The latest finished run of a stage key, None where there is none."""
    runs = asked(lambda: _last_finished("stage_key", key), ())
    return runs[0].info.run_id if runs else None


def _last_finished(tag: str, value: str) -> Sequence[Any]:
    """The latest finished run with a tag, if there is one."""
    wanted = f"tags.{tag} = '{value}' and attributes.status = 'FINISHED'"
    return search(wanted, max_results=1)


def seconds_by_stage() -> dict[str, float]:
    """How long the last execution of each stage took, where there is one."""
    seconds: dict[str, float] = {}

    def read() -> None:
        for stage in graph.load_stages():
            for run in _last_finished("stage", stage.name):
                took = run.info.end_time - run.info.start_time
                seconds[stage.name] = took / 1000

    best_effort(read)
    return seconds


def end_children(parent: str) -> None:
    """Mark runs that were killed, and could not say so, as KILLED."""

    def end() -> None:
        for run in search(
            f"tags.mlflow.parentRunId = '{parent}' "
            "and attributes.status = 'RUNNING'"
        ):
            connect().set_terminated(run.info.run_id, "KILLED")

    best_effort(end)


def _origin(source: str) -> dict[str, str]:
    """Where a run comes from: program, machine, packages, commit."""
    return {
        "mlflow.source.name": source,
        "mlflow.source.type": "LOCAL",
        **machine.describe(),
    }


@contextmanager
def _running(name: str, tags: Mapping[str, str]) -> Iterator[Run]:
    """Open a run and close it with the status of the block's outcome."""
    run = Run(name, dict(tags))
    try:
        yield run
    except BaseException as error:
        failed = isinstance(error, Exception)
        run.log_tags({"error": f"{type(error).__name__}: {error}"[:5000]})
        run.close("FAILED" if failed else "KILLED")
        raise
    run.close("FINISHED")
