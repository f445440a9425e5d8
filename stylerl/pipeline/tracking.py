"""MLflow: its runs, its models and its store.  The one file that imports it.

A log must never cost a training run: whatever MLflow refuses is said once on
standard error, and the stage continues (store.py).  The store is
mlflow/mlflow.db with its files in mlflow/artifacts, unless
MLFLOW_TRACKING_URI names a server.
"""

import functools
import json
import logging
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stylerl import storage
from stylerl.errors import DataError
from stylerl.pipeline import process, reach
from stylerl.pipeline.store import LIMITS, best_effort, store
from stylerl.pipeline.store import folder as store_folder

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

EXPERIMENT = "stylerl"
COMPLETIONS = "completions.parquet"  # of a run of the stage `evaluate`
ENVIRONMENT = {
    **LIMITS,
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",  # one for each file
}
UI_LAYOUT = {"mlflow.experimentKind": "custom_model_development"}


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

    def __init__(self, name: str, tags: dict[str, str]) -> None:
        self.id = ""
        self.client: Any = None
        best_effort(lambda: self._open(name, tags))

    def _open(self, name: str, tags: dict[str, str]) -> None:
        client = connect()
        run = client.create_run(experiment(client), tags=tags, run_name=name)
        self.id = run.info.run_id
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
        import mlflow

        mlflow.log_params(dict(flat(params)), run_id=self.id)

    @_unless_gone
    def log_metrics(
        self, metrics: Mapping[str, Any], step: int | None = None
    ) -> None:
        """Record metrics, at a step of a training; nested ones get dotted
        names.  None is left out, and what is said in words."""
        self.client.log_batch(self.id, metrics=_entries(metrics, step))

    @_unless_gone
    def log_models(self, scores: Mapping[str, Mapping[str, Any]]) -> None:
        """Record models and what they score; MLflow's page compares them.

        The run has the metrics of the last one as its own.
        """
        for name, metrics in scores.items():
            model = self.client.create_logged_model(
                experiment(self.client), name, source_run_id=self.id
            )
            entries = _entries(metrics, model_id=model.model_id)
            self.client.log_batch(self.id, metrics=entries)
            self.client.finalize_logged_model(model.model_id, "READY")

    @_unless_gone
    def log_table(self, name: str, table: "pd.DataFrame") -> None:
        """Record a table that the UI can show and compare, `NAME.json`."""
        self.client.log_table(self.id, table, name)

    @_unless_gone
    def log_file(self, path: Path) -> None:
        """Record a file."""
        self.client.log_artifact(self.id, str(path))

    @_unless_gone
    def log_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        for name, value in tags.items():
            self.client.set_tag(self.id, name, value)

    @_unless_gone
    def log_inputs(self, digests: Mapping[str, str]) -> None:
        """Record what was read, by path and DVC digest."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        context = [InputTag("mlflow.data.context", "input")]
        inputs = [
            DatasetInput(
                Dataset(path, digest[:36], "dvc", json.dumps({"path": path})),
                context,
            )
            for path, digest in digests.items()
        ]
        if inputs:
            self.client.log_inputs(self.id, datasets=inputs)


def search(query: str, **options: Any) -> Sequence[Any]:
    """The runs that match a query, the latest first."""
    client = connect()
    return client.search_runs([experiment(client)], query, **options)


def completions(run: str) -> "pd.DataFrame":
    """The table of completions that a run of the stage `evaluate` left.

    Raises:
        DataError: there is no such run, or it left no table.
    """
    from mlflow.exceptions import MlflowException

    try:
        client = connect()
        with tempfile.TemporaryDirectory() as folder:
            path = client.download_artifacts(run, COMPLETIONS, folder)
            return storage.read_table(Path(path))
    except (MlflowException, OSError) as error:
        message = (
            f"run {run} must have left {COMPLETIONS} in {store()}; it has "
            f"not: {error}"
        )
        raise DataError(reach.shown(message)) from error


def add_version(
    model: str, folder: str, run: str | None, tags: dict[str, str]
) -> str:
    """Register a folder as the next version of a model; its number.

    Args:
        model: its name; MLflow makes it where there is none.
        folder: whose files are copied.
        run: that made the folder.
        tags: of the version.
    """
    client = connect()
    import mlflow

    logged = client.create_logged_model(
        experiment(client), model, source_run_id=run, tags=tags
    )
    client.log_model_artifacts(logged.model_id, folder)
    client.finalize_logged_model(logged.model_id, "READY")
    added = mlflow.register_model(logged.model_uri, model, tags=tags)
    return str(added.version)


def connect() -> "MlflowClient":
    """A client of the tracking store, which is made on first use (~6 s)."""
    reach.spare_loopback()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # what is refused is said once, by `best_effort`, in one line
    for name in ("mlflow.store.db.utils", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    first = "mlflow" not in sys.modules
    with process.importing() if first else nullcontext():
        import mlflow

        mlflow.set_tracking_uri(store())  # where `models:/` is looked up
        return _client(store())


@functools.lru_cache(maxsize=1)
def _client(uri: str) -> "MlflowClient":
    """A client costs a second, so one is kept.

    Raises:
        ConnectionError: no runs can be had from what the address names.
    """
    import mlflow

    try:
        client = mlflow.MlflowClient(uri)
        client.search_experiments(max_results=1)
    except Exception as error:
        raise ConnectionError(str(error)) from error
    return client


def experiment(client: "MlflowClient") -> str:
    """The experiment's id; it is made where it does not exist."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    if existing := client.get_experiment_by_name(name):
        return existing.experiment_id
    local = store().startswith("sqlite:")
    artifacts = (store_folder() / "artifacts").as_uri() if local else None
    return client.create_experiment(name, artifacts, UI_LAYOUT)


def _entries(
    metrics: Mapping[str, Any],
    step: int | None = None,
    model_id: str | None = None,
) -> list[Any]:
    """Metrics as MLflow takes them, of a run's step or of a model."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [
        Metric(name, float(value), now, step or 0, model_id)
        for name, value in flat(metrics)
        if not isinstance(value, str | None)
    ]


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[Any]:
    """(dotted name, value) of each leaf."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
