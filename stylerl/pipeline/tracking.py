"""MLflow: the record of every run.  The one file that imports mlflow.

A flow is a parent run, each stage that does work a child of it; `dvc repro`
alone makes the same stage runs without a parent.  The flow hands its run and
the stage's key down by the environment (PARENT, KEY).

A log must never cost a training run: whatever MLflow refuses is said once on
standard error, and the stage continues (store.py).  The store is
mlflow/mlflow.db with its files in mlflow/artifacts, unless
MLFLOW_TRACKING_URI names a server.
"""

import functools
import importlib.metadata
import json
import logging
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import stylerl
from stylerl import config, storage
from stylerl.errors import DataError, StylerlError, require
from stylerl.pipeline import graph, machine, process, reach
from stylerl.pipeline.store import (
    Unusable,
    asked,
    best_effort,
    check,
    database,
    moving,
    store,
)
from stylerl.pipeline.store import folder as store_folder

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

PARENT = "STYLERL_PARENT_RUN"
KEY = "STYLERL_STAGE_KEY"
SCORES = {"base": "base", "before": "sft", "after": "ppo", "gain": "gain"}
EXPERIMENT = "stylerl"
COMPLETIONS = "completions.parquet"  # of a run of the stage `evaluate`
LOCAL_UI = "http://127.0.0.1:5000"  # of `make ui`
MACHINE_LEARNING = "workflowType=machine_learning"  # a page's, not of agents
SYSTEM_METRICS = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
UI_LAYOUT = {"mlflow.experimentKind": "custom_model_development"}
SERVED_WITH = ("torch", "transformers", "tokenizers", "safetensors", "pandas")
LONGEST_VALUE = 6000  # characters MLflow keeps of a parameter


def _unless_gone(method: Callable[..., None]) -> Callable[..., None]:
    """Make a method of Run do nothing once MLflow has failed."""

    @functools.wraps(method)
    def call(run: "Run", *args: Any, **kwargs: Any) -> None:
        if run.client and not best_effort(
            lambda: method(run, *args, **kwargs)
        ):
            run.client = None

    return call


class Run:
    """One MLflow run; without a client, every call returns at once."""

    def __init__(
        self, name: str, tags: dict[str, str], again: str = ""
    ) -> None:
        self.id = ""
        self.url = ""
        self.client: Any = None
        best_effort(lambda: self._open(name, tags, again))

    def _open(self, name: str, tags: dict[str, str], again: str) -> None:
        client = connect()
        folder = experiment(client)
        if again:
            client.update_run(again, status="RUNNING")
            self.id = again
        else:
            run = client.create_run(folder, tags=tags, run_name=name)
            self.id = run.info.run_id
        here = f"{_ui()}/#/experiments/{folder}/runs/{self.id}"
        self.url = f"{here}?{MACHINE_LEARNING}"
        self.client = client

    def close(self, status: str) -> None:
        """End the run of this process as FINISHED, FAILED or KILLED."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1 if sys.platform == "darwin" else 1024
        self.log_metrics({"peak_memory_gib": peak * unit / 2**30})
        self.end(status)

    @_unless_gone
    def end(self, status: str) -> None:
        """Set the status."""
        self.client.set_terminated(self.id, status)

    @_unless_gone
    def log_params(self, params: Mapping[str, Any]) -> None:
        """Record parameters; nested sections become dotted names."""
        from mlflow.entities import Param

        values = [
            Param(name, str(value)[:LONGEST_VALUE])
            for name, value in _flat(params)
        ]
        self.client.log_batch(self.id, params=values)

    @_unless_gone
    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: int | None = None,
        model: str | None = None,
        dataset: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Record metrics; nested ones get dotted names, None is left out.

        Args:
            metrics: numbers by name.
            step: of a training.
            model: id of the LoggedModel that they are of.
            dataset: name and digest of what it was measured on.
        """
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        entries = [
            Metric(name, float(value), now, step or 0, model, *dataset)
            for name, value in _flat(metrics)
            if value is not None
        ]
        self.client.log_batch(self.id, metrics=entries)

    @_unless_gone
    def log_table(self, name: str, table: "pd.DataFrame") -> None:
        """Record a table that the UI can show and compare, `NAME.json`."""
        self.client.log_table(self.id, table, name)

    @_unless_gone
    def log_file(self, path: Path) -> None:
        """Record a file, or every file of a folder."""
        with moving(path):
            if path.is_dir():
                self.client.log_artifacts(self.id, str(path), path.name)
            else:
                self.client.log_artifact(self.id, str(path))

    @_unless_gone
    def log_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        from mlflow.entities import RunTag

        entries = [RunTag(name, value) for name, value in tags.items()]
        self.client.log_batch(self.id, tags=entries)

    def log_tag(self, name: str, value: str) -> None:
        """Set a tag."""
        self.log_tags({name: value})

    @_unless_gone
    def log_inputs(
        self,
        digests: Mapping[str, str],
        purpose: str = "input",
        models: Iterable[str] = (),
    ) -> None:
        """Record what was read, by path and DVC digest, and LoggedModels."""
        from mlflow.entities import (
            Dataset,
            DatasetInput,
            InputTag,
            LoggedModelInput,
        )

        context = [InputTag("mlflow.data.context", purpose)]
        inputs = [
            DatasetInput(
                Dataset(path, digest[:36], "dvc", json.dumps({"path": path})),
                context,
            )
            for path, digest in digests.items()
        ]
        used = [LoggedModelInput(model) for model in models]
        if inputs or used:
            self.client.log_inputs(self.id, datasets=inputs, models=used)


@contextmanager
def stage_run(stage: str, params: Mapping[str, Any]) -> Iterator[Run]:
    """The run of one stage, a child of the flow's run where there is one.

    Recorded by itself: the stage's key, its parameters, the digests of its
    inputs, the machine, the commit, time and peak memory.
    """
    tags = {"stage": stage, **_origin(f"python -m tasks.{stage}")}
    digests: dict[str, str] = {}
    try:
        declared = graph.find_stage(stage)
        tags["stage_key"] = os.environ.get(KEY) or graph.stage_key(declared)
        digests = graph.datasets(declared)
    except StylerlError:
        tags["stage_key"] = "outside a pipeline"
    with _experiment_run() as experiment_run:
        parent = experiment_run.id if experiment_run else ""
        if parent := parent or os.environ.get(PARENT, ""):
            tags["mlflow.parentRunId"] = parent
        with _running(stage, tags) as run, _system_metrics(run):
            run.log_params(params)
            run.log_inputs(digests)
            yield run
        if experiment_run and stage == "evaluate":
            metrics = storage.read_json(Path("metrics/evaluate.json"))
            experiment_run.log_metrics(scores(metrics))


@contextmanager
def _experiment_run() -> Iterator[Run | None]:
    """The run of the DVC experiment that a stage works for, if it does.

    The first stage makes it and each later one opens it again, so that it
    ends as the last one did; the name and the commit that it began from are
    DVC's.
    """
    name = os.environ.get("DVC_EXP_NAME")
    if not name or os.environ.get(PARENT):
        yield None
        return
    tags = {
        "dvc.experiment": name,
        "dvc.baseline": os.environ.get("DVC_EXP_BASELINE_REV", ""),
        "dvc.params": storage.digest(Path("params.yaml"))[:16],
    }
    query = " and ".join(f"tags.`{k}` = '{v}'" for k, v in tags.items())
    found = asked(lambda: _search(query), ())
    tags |= {"flow": "dvc exp", **_origin("dvc exp run")}
    again = found[0].info.run_id if found else ""
    with _running(name, tags, again) as run:
        if not again:
            run.log_params(config.to_dict(config.load()))
        yield run


def scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What a parent run holds of an evaluation: before/, after/, gain/."""
    return {
        f"{name}/{key}": value
        for name, model in SCORES.items()
        for key, value in metrics[model].items()
    }


@contextmanager
def _system_metrics(run: Run) -> Iterator[None]:
    """Let MLflow log CPU, memory and GPU every ten seconds, in a thread.

    MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=false switches it off.
    """
    monitors: list[Any] = []

    def start() -> None:
        from mlflow.system_metrics import system_metrics_monitor as system

        # what it cannot log is said once, by the run
        logging.getLogger(system.__name__).setLevel(logging.CRITICAL)
        monitors.append(system.SystemMetricsMonitor(run.id))
        monitors[0].start()

    off = os.environ.get(SYSTEM_METRICS, "").lower() in ("false", "0")
    if run.client and not off:
        best_effort(start)
    try:
        yield
    finally:
        if monitors and run.client:  # else it may hang, and is a daemon
            best_effort(monitors[0].finish)  # asks first: it joins for 6 s


@contextmanager
def flow_run(
    name: str, params: Mapping[str, Any], kind: str = "rlhf", parent: str = ""
) -> Iterator[Run]:
    """The parent run of one flow: all parameters, the lock, the machine.

    A point of a sweep is such a run too, under the sweep's own.
    """
    tags = {"flow": kind, **_origin("flows/rlhf.py")}
    if parent:
        tags["mlflow.parentRunId"] = parent
    with _running(name, tags) as run:
        run.log_params(params)
        if (lock := Path("requirements.lock")).exists():
            run.log_file(lock)
        yield run


def stage_run_id(key: str) -> str | None:
    """The latest finished run of a stage key, None where there is none."""
    found = asked(lambda: _last_finished("stage_key", key), ())
    return found[0].info.run_id if found else None


def _last_finished(tag: str, value: str) -> Sequence[Any]:
    """The latest finished run with a tag, if there is one."""
    wanted = f"tags.{tag} = '{value}' and attributes.status = 'FINISHED'"
    return _search(wanted, max_results=1)


def _search(query: str, **options: Any) -> Sequence[Any]:
    """The runs of which a query holds, the latest first."""
    client = connect()
    return client.search_runs([experiment(client)], query, **options)


def still_there(runs: Iterable[str]) -> set[str]:
    """Those of some runs that the store has: it may be another one now."""
    ids = ", ".join(f"'{run}'" for run in runs)
    if not ids:
        return set()
    kept = asked(lambda: _search(f"attributes.run_id IN ({ids})"), ())
    return {run.info.run_id for run in kept}


def log_again(
    stage: graph.Stage, key: str, params: Mapping[str, Any], parent: str
) -> str:
    """Log what a stage measured, from the files it left; the run's id.

    For a store that did not answer when the stage ran, that lost the run,
    or that is asked for the first time.
    """
    tags = {
        "stage": stage.name,
        "stage_key": key,
        "logged": "afterwards",  # by another process than the stage's
        "mlflow.parentRunId": parent,
    }
    with _running(stage.name, tags) as run:
        run.log_params(params)
        run.log_inputs(graph.datasets(stage))
        for out in map(Path, stage.outs):
            file = out / COMPLETIONS if out.is_dir() else out
            if file.suffix == ".json":
                run.log_metrics(_numbers(storage.read_json(file)))
            small = file.suffix in (".json", ".csv", ".html")
            if file.exists() and (small or file.name == COMPLETIONS):
                run.log_file(file)
    return run.id


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of a file of metrics that are numbers."""
    return {
        name: value
        for name, value in _flat(metrics)
        if isinstance(value, (int, float))
    }


def seconds_by_stage(last: bool = False) -> dict[str, float]:
    """How long the execution of each stage took that its key names now.

    With `last` its last execution, whatever its inputs were.  A stage is left
    out where its latest finished run is none, or was logged afterwards.
    """
    found: dict[str, float] = {}

    def search() -> None:
        for stage in graph.load_stages():
            tag, value = "stage", stage.name
            if not last:
                tag, value = "stage_key", graph.stage_key(stage)
            for run in _last_finished(tag, value):
                if "logged" not in run.data.tags:
                    took = run.info.end_time - run.info.start_time
                    found[stage.name] = took / 1000

    best_effort(search)
    return found


def completions(run: str) -> "pd.DataFrame":
    """The table of completions that a run's evaluation left.

    Args:
        run: id or name of a flow's run, or of its stage `evaluate`.

    Raises:
        DataError: there is no such run, or it left no table.
    """
    require("pipeline", "mlflow")
    kept = database(store())
    if kept and not kept.exists():  # to make one takes seconds
        raise DataError(
            f"run {run} must be a folder, or in MLflow's store; there is "
            f"neither: `stylerl run` makes {kept}"
        )
    from mlflow.exceptions import MlflowException

    try:
        check(store())
        client = connect()
        found = _find_run(client, run)
        stage = found.data.tags.get("run.evaluate", found.info.run_id)
        with tempfile.TemporaryDirectory() as folder:
            path = client.download_artifacts(stage, COMPLETIONS, folder)
            return storage.read_table(Path(path))
    except (MlflowException, OSError) as error:
        at = reach.shown(store())
        raise DataError(
            f"run {run} has no table of completions in {at}; one that "
            f"`stylerl run` evaluated has: {error}"
        ) from error


def end_children(parent: str) -> None:
    """Mark runs that were killed, and could not say so, as KILLED."""

    def end() -> None:
        for run in _search(
            f"tags.mlflow.parentRunId = '{parent}' "
            "and attributes.status = 'RUNNING'"
        ):
            connect().set_terminated(run.info.run_id, "KILLED")

    best_effort(end)


def save_pyfunc(
    path: Path, loader: ModuleType, folder: str, params: Mapping[str, Any]
) -> None:
    """Write a model that `mlflow models serve` can load, without pickle.

    It takes a column `prompt` and gives `completion` and `finished`.  The
    code goes with it: it answers as it did when it was saved, whatever
    becomes of the library in the meantime.

    Args:
        path: the new folder.
        loader: a module of a package whose `_load_pyfunc(folder)` gives an
            object with `predict(prompts, params)`.
        folder: what the loader is to load.
        params: what may be given beside the prompts, and the defaults:
            numbers and lists of texts.
    """
    from mlflow import pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    types = {int: "long", float: "double"}
    specs = [
        ParamSpec(name, "string", value, shape=(-1,))
        if isinstance(value, list)
        else ParamSpec(name, types[type(value)], value)
        for name, value in params.items()
    ]
    completion = ColSpec("string", "completion")
    finished = ColSpec("boolean", "finished")
    pyfunc.save_model(
        str(path),
        loader_module=loader.__name__,
        data_path=folder,
        code_paths=[str(Path(str(stylerl.__file__)).parent)],
        signature=ModelSignature(
            Schema([ColSpec("string", "prompt")]),
            Schema([completion, finished]),
            ParamSchema(specs),
        ),
        input_example={"prompt": ["def add(a, b):"]},
        pip_requirements=[
            f"{name}=={importlib.metadata.version(name)}"
            for name in SERVED_WITH
        ],
    )


def external_model(name: str, run: str | None, tags: dict[str, str]) -> Any:
    """A LoggedModel whose weights are elsewhere, and the run's output."""
    import mlflow
    from mlflow.entities import LoggedModelOutput

    client = connect()
    model = mlflow.create_external_model(
        name, run, tags, experiment_id=experiment(client)
    )
    if run:
        client.log_outputs(run, [LoggedModelOutput(model.model_id, 0)])
    return model


def log_model_params(model: str, params: Mapping[str, Any]) -> None:
    """Record parameters of a LoggedModel, by dotted name."""
    values = {k: str(v)[:LONGEST_VALUE] for k, v in _flat(params)}
    if values:
        connect().log_model_params(model, values)


def refusal(message: str) -> Exception:
    """What a served model raises so that MLflow answers 400 with a message."""
    from mlflow.exceptions import MlflowException

    return MlflowException.invalid_parameter_value(message)


def overload(message: str, seconds: int) -> Exception:
    """As `refusal`, for status 503 and the header Retry-After.

    MLflow's answer to an error has no headers, so that of its web framework
    takes its place as soon as MLflow writes its own.
    """
    from fastapi import HTTPException
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

    class Overload(MlflowException):
        def serialize_as_json(self) -> str:
            raise HTTPException(503, message, {"Retry-After": str(seconds)})

    return Overload(message, TEMPORARILY_UNAVAILABLE)


def connect() -> "MlflowClient":
    """A client of the tracking store, which is made on first use (~6 s)."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    require("pipeline", "mlflow")
    # what SQLite refuses is said once, by `best_effort`, in one line
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    import mlflow

    mlflow.set_tracking_uri(store())  # where `models:/` is looked up
    return _client(store())


@functools.lru_cache(maxsize=1)
def _client(uri: str) -> "MlflowClient":
    """A client costs a second, so one is kept.

    Raises:
        Unusable: no runs can be had from what the address names.
    """
    import mlflow

    try:
        _make_database(uri)
        client = mlflow.MlflowClient(uri)
        client.get_experiment_by_name(EXPERIMENT)
    except Exception as error:
        if process.from_network(error):
            raise
        raise Unusable(str(error)) from error
    return client


def _make_database(uri: str) -> None:
    """Make an SQLite store that is not there, whole or not at all.

    MLflow needs some 400 statements for it, and after a kill among them
    neither goes on nor begins again.
    """
    import mlflow

    file = database(uri)
    if file is None or file.exists():
        return
    file.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="unfinished-", dir=file.parent
    ) as folder:
        made = Path(folder, file.name).absolute()
        mlflow.MlflowClient(reach.sqlite(made)).search_experiments()
        if not file.exists():  # another process was not faster
            made.replace(file)


def experiment(client: "MlflowClient") -> str:
    """The experiment's id; it is made where it does not exist."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    if found := client.get_experiment_by_name(name):
        if found.lifecycle_stage == "deleted":
            raise Unusable(
                f"the experiment {name} is deleted: `mlflow experiments "
                f"restore -x {found.experiment_id}`, or name another by "
                "MLFLOW_EXPERIMENT_NAME"
            )
        return found.experiment_id
    local = store().startswith("sqlite:")
    artifacts = (store_folder() / "artifacts").as_uri() if local else None
    return client.create_experiment(name, artifacts, UI_LAYOUT)


def _origin(source: str) -> dict[str, str]:
    """Where a run comes from: program, machine, packages, commit."""
    return {
        "mlflow.source.name": source,
        "mlflow.source.type": "LOCAL",
        **machine.describe(),
    }


@contextmanager
def _running(
    name: str, tags: Mapping[str, str], again: str = ""
) -> Iterator[Run]:
    """Open a run and close it with the status of the block's outcome.

    Args:
        name: of a new run.
        tags: of a new run.
        again: the id of a run to open again instead.
    """
    run = Run(name, dict(tags), again)
    try:
        yield run
    except BaseException as error:
        failed = isinstance(error, Exception)
        run.log_tag("error", f"{type(error).__name__}: {error}"[:5000])
        run.close("FAILED" if failed else "KILLED")
        raise
    run.close("FINISHED")


def _find_run(client: "MlflowClient", run: str) -> Any:
    """The run of an id or a name.

    Raises:
        DataError: no run has it, or several have.
    """
    if re.fullmatch("[0-9a-f]{32}", run):
        return client.get_run(run)
    name = run.replace("'", "")
    found = _search(f"attributes.run_name = '{name}'")
    if len(found) != 1:
        ids = ", ".join(each.info.run_id for each in found) or "none"
        raise DataError(
            f"a run's name must name one run; {run!r} names {len(found)} "
            f"({ids}) in {reach.shown(store())}: give the run's id, as the "
            "UI shows it"
        )
    return found[0]


def _ui() -> str:
    """Where a browser finds the runs."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    shared = uri.startswith("http")
    return reach.shown(uri).rstrip("/") if shared else LOCAL_UI


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[Any]:
    """(dotted name, value) of each leaf."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
