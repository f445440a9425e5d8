"""The commands that a checkout adds to `stylerl`: `run` and `serve`."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata

from stylerl.cli.options import CHANGES, changes, command


@command(
    "run",
    *CHANGES,
)
def _run(options: argparse.Namespace) -> None:
    """Run the whole flow; what is up to date is not run again.

    Run every stage of dvc.yaml, from the filter to the report. Only what
    has changed since the last run is run again. The Prefect server of
    `make serve`, or the one that PREFECT_API_URL names, is used; without
    either the run has its own, and `make serve` shows it later.

    examples:
      stylerl run                          params.yaml as it is
      stylerl run --preset smoke           minutes, to see it run
      stylerl run --set ppo.kl_coef=0.1    ppo runs again, and what follows
    """
    from rich.console import Console
    from rich.markdown import Markdown

    from stylerl.pipeline import preflight, workspace
    from stylerl.report import summary

    metadata.version("prefect")  # before a server starts that needs it
    values = changes(options.set)
    preflight.check_files(workspace.resolve(options.preset, values))
    with prefect_session():
        from flows.rlhf import rlhf

        metrics = rlhf(options.preset, values)
    console = Console()
    console.print(Markdown(summary.before_after(metrics)))
    if metrics["promotion"]:
        console.print(metrics["promotion"], highlight=False, markup=False)
    console.print(f"\nReport   {summary.REPORT.resolve()}  (stylerl report)")
    console.print("MLflow   make ui, then the link that it prints")


@contextmanager
def prefect_session() -> Iterator[None]:
    """A Prefect server, which has heard everything before it goes.

    While it starts, what a run needs is imported: both take seconds.
    """
    from stylerl.pipeline import process
    from stylerl.pipeline import server as api

    with api.server(private=True) as wait_for_it:
        with process.importing():
            import_module("flows.rlhf")
            from prefect.events.worker import EventsWorker
            from prefect.logging.handlers import APILogWorker

            from stylerl.pipeline import store, tracking

            store.best_effort(tracking.connect)
        wait_for_it()
        try:
            yield
        finally:
            APILogWorker.drain_all(timeout=10)
            EventsWorker.drain_all(timeout=10)


@command("serve")
def _serve(_: argparse.Namespace) -> None:
    """Offer the flow as deployments of a Prefect server.

    Serve the deployments rlhf/full and rlhf/smoke until Ctrl-C. A Prefect
    server is started on http://127.0.0.1:4200 where none answers, and ends
    with it.

    examples, from another shell in the same folder:
      prefect deployment run rlhf/full --watch
      prefect deployment run rlhf/full -p preset=gpu
      prefect deployment run rlhf/full -p 'params={"ppo.kl_coef": 0.1}'
    """
    from stylerl.pipeline import server as api

    metadata.version("prefect")  # before a server starts that needs it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("PREFECT_RUNNER_POLL_FREQUENCY", "2")
    try:
        with api.server() as wait_for_it:
            wait_for_it()
            _serve_deployments()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def _serve_deployments() -> None:
    import prefect
    from prefect.deployments.runner import RunnerDeployment

    from flows.rlhf import rlhf

    add = RunnerDeployment.from_flow
    prefect.serve(
        add(rlhf, "full", parameters={"preset": None}),
        add(rlhf, "smoke", parameters={"preset": "smoke"}),
        limit=1,
    )
