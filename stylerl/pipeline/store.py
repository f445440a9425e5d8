"""The tracking store: where it is, whether it answers, and what if not.

A log must never cost a run its time: a store that does not answer is said
once and then left alone, by this process and, through the environment, by
every process that it starts.  The next run of a flow asks it again.
"""

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from stylerl import storage
from stylerl.pipeline import process, reach

GONE = "STYLERL_MLFLOW_GONE"  # the store that did not answer
PATIENCE = 2.0  # seconds that another writer may hold an SQLite store
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
LIMITS = {  # MLflow's own: 120 seconds, and 7 retries of each call
    TIMEOUT: "3",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # of a connection gone stale
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # an hour, say
}
RATE = 2**20  # bytes a second, at the least, of a file on its way
T = TypeVar("T")
D = TypeVar("D")


class Unusable(ConnectionError):
    """What is at the address cannot be used as a store at all."""


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
        said = f"{error!s:.300}"
        gone = process.from_network(error)
        if gone:
            os.environ[GONE] = uri
        if database(uri) and (reason := storage.refusal(error)):
            said = f"{uri} cannot be written: {reason}"
        elif gone:
            what = "does not answer"
            if isinstance(error, Unusable):
                what = "cannot be used"
            said = f"{uri} {what}, and is asked no more: {said}"
        line = " ".join(reach.shown(said).split())
        print(f"MLflow: not logged: {line}", file=sys.stderr)
        return False
    return True


def asked(call: Callable[[], T], otherwise: D) -> T | D:
    """What the call gives; `otherwise` where `best_effort` fails."""
    found: list[T | D] = [otherwise]
    best_effort(lambda: found.append(call()))
    return found[-1]


@contextmanager
def moving(path: Path) -> Iterator[None]:
    """Let a call last as long as a file, or a folder's files, may take.

    A server that passes files on to another place answers when they are
    there.
    """
    files = path.rglob("*") if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    limit = os.environ.get(TIMEOUT)
    if limit == LIMITS[TIMEOUT]:  # not the user's own
        os.environ[TIMEOUT] = str(int(limit) + size // RATE)
    try:
        yield
    finally:
        if limit:
            os.environ[TIMEOUT] = limit


def database(uri: str) -> Path | None:
    """The file of an SQLite store; None where the store is none."""
    found = re.fullmatch(r"sqlite:///([^?]+)(\?.*)?", uri)
    return Path(unquote(found[1])).absolute() if found else None


def look_into(file: Path) -> None:
    """Raise Unusable unless SQLite can write into a file that exists.

    MLflow tries for minutes to open what cannot be opened.
    """
    if not file.is_file():
        raise Unusable(f"{file} is no file")
    try:
        address = f"{file.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, PATIENCE, uri=True)) as found:
            found.execute("BEGIN IMMEDIATE")
            found.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return  # another writes: MLflow waits for it
        raise Unusable(f"{file}: {error}") from error
