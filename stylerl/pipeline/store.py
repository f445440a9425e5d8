"""The tracking store: where it is, whether it answers, and what if not.

A log must never cost a run its time: a store that does not answer is said
once and then left alone, by this process and, through the environment, by
every process that it starts.  The next run of a flow asks it again.
"""

import os
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from stylerl import storage
from stylerl.pipeline import process

GONE = "STYLERL_MLFLOW_GONE"  # the store that did not answer
PATIENCE = 2.0  # seconds that a store may take to answer at all
ASK_AFTER = 5.0  # seconds after which it is asked again
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
LIMITS = {  # MLflow's own: 120 seconds, and 7 retries of each call
    TIMEOUT: "3",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # of a connection gone stale
}
RATE = 2**20  # bytes a second, at the least, of a file on its way
_heard: dict[str, float] = {}  # when each store answered last
T = TypeVar("T")
D = TypeVar("D")


def store() -> str:
    """MLFLOW_TRACKING_URI, or the workspace's own database."""
    if named := os.environ.get("MLFLOW_TRACKING_URI"):
        return named
    own = folder()
    with suppress(OSError):  # `_ask` says so
        own.mkdir(exist_ok=True)
    return f"sqlite:///{own / 'mlflow.db'}"


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
        _reach(uri)
        call()
    except Exception as error:
        said = " ".join(str(error).split())
        if reason := storage.refusal(error):
            said = f"{uri} cannot be written: {reason}"
        if process.from_network(error):
            os.environ[GONE] = uri
            said = f"{uri} does not answer, and is asked no more: {said:.200}"
        print(f"MLflow: not logged: {said}", file=sys.stderr)
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


def _reach(uri: str) -> None:
    """Raise ConnectionError where the store cannot be had, in two seconds.

    One that answered a moment ago is not asked.
    """
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)
    if time.monotonic() - _heard.get(uri, -ASK_AFTER) < ASK_AFTER:
        return
    errors: list[BaseException | None] = []

    def ask() -> None:
        try:
            _ask(urlsplit(uri))
            errors.append(None)
        except Exception as error:
            errors.append(error)

    asking = Thread(target=ask, daemon=True)  # a name server may hang too
    asking.start()
    asking.join(PATIENCE * 1.2)
    error = errors[0] if errors else TimeoutError("no answer in 2 seconds")
    if error:
        raise ConnectionError(str(error)) from error


def _ask(uri: SplitResult) -> None:
    """Raise an error unless something answers at the address."""
    if uri.scheme == "sqlite":  # MLflow tries for minutes to open it
        file = Path(uri.path[1:]).absolute()
        while not file.exists():
            file = file.parent
        if not os.access(file, os.W_OK):
            raise OSError(f"{file} cannot be written")
    elif uri.scheme in ("http", "https"):
        address = uri._replace(
            netloc=uri.netloc.rpartition("@")[2],
            path=f"{uri.path.rstrip('/')}/health",
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
    elif uri.hostname:
        port = uri.port or (3306 if uri.scheme.startswith("mysql") else 5432)
        socket.create_connection((uri.hostname, port), PATIENCE).close()
