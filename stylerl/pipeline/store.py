"""The tracking store: where it is, whether it answers, and what if not.

A log must never cost a run its time: a store that does not answer is said
once and then left alone, by this process and, through the environment, by
every process that it starts.  The next run of a flow asks it again.
"""

import os
import re
import socket
import sqlite3
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from stylerl import storage
from stylerl.pipeline import process, reach

GONE = "STYLERL_MLFLOW_GONE"  # the store that did not answer
PATIENCE = 2.0  # seconds that a store may take to answer at all,
LIMIT = 4.0  # with a name server's and all else
ASK_AFTER = 5.0  # seconds after which it is asked again
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
LIMITS = {  # MLflow's own: 120 seconds, and 7 retries of each call
    TIMEOUT: "3",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # of a connection gone stale
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # an hour, say
}
RATE = 2**20  # bytes a second, at the least, of a file on its way
_heard: dict[str, float] = {}  # when each store answered last
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
        check(uri)
        call()
    except Exception as error:
        said = f"{error!s:.300}"
        where = uri
        gone = process.from_network(error)
        if gone:
            os.environ[GONE] = uri
        if database(uri) and (reason := storage.refusal(error)):
            said = f"{where} cannot be written: {reason}"
        elif gone:
            what = "does not answer"
            if isinstance(error, Unusable):
                what = "cannot be used"
            said = f"{where} {what}, and is asked no more: {said}"
        line = " ".join(reach.shown(said).split())
        print(f"MLflow: not logged: {line}", file=sys.stderr)
        return False
    _heard[uri] = time.monotonic()
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


def check(uri: str) -> None:
    """Raise ConnectionError where the store cannot be had, in four seconds.

    One that answered a moment ago is not asked.
    """
    reach.spare_loopback()
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)
    if time.monotonic() - _heard.get(uri, -ASK_AFTER) < ASK_AFTER:
        return
    try:
        reach.within(LIMIT, lambda: _ask(uri))
    except Unusable:
        raise
    except Exception as error:
        raise ConnectionError(str(error)) from error


def database(uri: str) -> Path | None:
    """The file of an SQLite store; None where the store is none."""
    found = re.fullmatch(r"sqlite:///([^?]+)(\?.*)?", uri)
    return Path(unquote(found[1])).absolute() if found else None


def _ask(uri: str) -> None:
    """Raise an error unless something answers at the address."""
    if file := database(uri):
        return _look_into(file)
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        address = parts._replace(
            netloc=parts.netloc.rpartition("@")[2],
            path=f"{parts.path.rstrip('/')}/health",
        )
        anyone = ssl.create_default_context()
        anyone.check_hostname = False  # whether, not who: nothing is sent
        anyone.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(
                address.geturl(), timeout=PATIENCE, context=anyone
            ):
                pass
        except urllib.error.HTTPError:
            pass  # is an answer
    elif parts.hostname:
        mysql = parts.scheme.startswith("mysql")
        port = parts.port or (3306 if mysql else 5432)
        socket.create_connection((parts.hostname, port), PATIENCE).close()


def _look_into(file: Path) -> None:
    """Raise Unusable unless SQLite can use the file, or make it.

    MLflow tries for minutes to open what cannot be opened.
    """
    there = file
    while not there.exists():
        there = there.parent
    for each in {there, file.parent if there == file else there}:
        if not os.access(each, os.W_OK):
            raise Unusable(f"{each} cannot be written")
    if there != file:
        return
    if not file.is_file():
        raise Unusable(f"{file} is no file")
    try:
        # Not read-only: SQLite takes back what a killed writer left half done.
        address = f"{file.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, PATIENCE, uri=True)) as found:
            found.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return  # another writes: MLflow waits for it
        raise Unusable(f"{file}: {error}") from error
