"""The tracking store: its address, and what happens if it is silent.

A log must never cost a run its time: a store that does not answer is said
once and then left alone, by this process and, through the environment, by
every process that it starts.  The next run of a flow asks it again.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stylerl.pipeline import process, reach

GONE = "STYLERL_MLFLOW_GONE"  # the store that did not answer
LIMITS = {  # MLflow's own: 120 seconds, and 7 retries of each call
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # docs/howto/share.md: who needs more
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # of a connection gone stale
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # an hour, say
}
T = TypeVar("T")
D = TypeVar("D")


def store() -> str:
    """MLFLOW_TRACKING_URI, or the workspace's own database."""
    if named := os.environ.get("MLFLOW_TRACKING_URI"):
        return named
    return reach.sqlite(folder() / "mlflow.db")


def folder() -> Path:
    """mlflow/ of the checkout.

    `dvc exp run` with --queue or --temp works in a copy that it drops
    afterwards, and names the checkout.
    """
    copied = "DVC_EXP_BASELINE_REV" in os.environ
    root = os.environ.get("DVC_ROOT", "") if copied else ""
    return Path(root, "mlflow").resolve()


def best_effort(call: Callable[[], object]) -> bool:
    """Whether the call worked; what went wrong is printed, not raised."""
    uri = store()
    if os.environ.get(GONE) == uri:
        return False
    try:
        call()
    except Exception as error:
        reason = f"{error!s:.300}"
        if process.from_network(error):
            os.environ[GONE] = uri
            reason = f"{uri} cannot be used, and is asked no more: {reason}"
        line = " ".join(reach.shown(reason).split())
        print(f"MLflow: not logged: {line}", file=sys.stderr)
        return False
    return True


def asked(call: Callable[[], T], otherwise: D) -> T | D:
    """The result of the call; `otherwise` where `best_effort` fails."""
    answers: list[T | D] = [otherwise]
    best_effort(lambda: answers.append(call()))
    return answers[-1]
