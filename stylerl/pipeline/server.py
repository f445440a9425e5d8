"""Where the Prefect API is, whether it answers, and a server where not.

A server that the user named by PREFECT_API_URL is used or, where it does not
answer, refused.  Without one, a server at the default address is used if it
keeps this checkout's records, and another is started if not.

Nothing here imports Prefect, whose settings are read once on import: what
this module finds out decides what they will be.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stylerl.errors import StylerlError
from stylerl.pipeline import reach
from stylerl.pipeline.child import end_session

DEFAULT = "http://127.0.0.1:4200/api"
NAME = "PREFECT_API_URL"
HERE = r"http://(127\.0\.0\.1|localhost):\d+/api"  # where one can start
STARTUP = 120.0  # seconds a server may take
PATIENCE = 2.0  # seconds that an answer may take


def url() -> str:
    """The address of the API."""
    return (os.environ.get(NAME) or DEFAULT).rstrip("/")


def address() -> tuple[str, int]:
    """Host and port of the API, which is on this machine."""
    parts = urlsplit(url())
    return parts.hostname or "127.0.0.1", parts.port or 4200


def home() -> Path:
    """The folder of this checkout's records, as pyproject.toml has it."""
    return Path(os.environ.get("PREFECT_HOME") or ".prefect").resolve()


def answers() -> bool:
    """Whether a server is there and healthy."""
    return _get("health") is True


@contextmanager
def server(private: bool = False) -> Iterator[Callable[[], None]]:
    """A Prefect server for as long as the block runs.

    One that answers already is used, and left running.  To be entered
    before Prefect is imported.  The block is given a function to call once
    it needs the server, which waits until that answers.

    Args:
        private: take any free port, for this process and its children
            alone; otherwise the address that is meant.

    Raises:
        StylerlError: the server that the user named does not answer, the
            one at the default address is not this checkout's (and none may
            be started elsewhere), or it does not start.
    """
    reach.spare_loopback()
    named = bool(os.environ.get(NAME))
    if NAME in os.environ:  # which empty is none to Prefect
        os.environ[NAME] = url()
    if answers():
        if named or _is_own():
            yield lambda: None
            return
        if not private:
            raise StylerlError(
                "a Prefect server that is adopted must be this checkout's; "
                f"{url()} keeps the records of another: in every shell, "
                f"`export {NAME}={url()}` to use it all the same, or "
                f"`export {NAME}=http://127.0.0.1:{free_port()}/api` for one "
                "of its own"
            )
    elif named and (private or not re.fullmatch(HERE, url())):
        raise StylerlError(
            f"the Prefect API must answer where {NAME} names it; "
            f"{reach.shown(url())} does not: start it, or take the name "
            "away to use a server of this checkout's own"
        )
    with _started(private) as child:
        yield lambda: _wait_for(child)


@contextmanager
def _started(private: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A server of this checkout's own, which may not answer yet."""
    if private:
        # a link in the log is to where `make serve` shows the record later
        os.environ.setdefault("PREFECT_UI_URL", url().removesuffix("/api"))
        os.environ[NAME] = f"http://127.0.0.1:{free_port()}/api"
    host, port = address()
    print(f"starting Prefect on http://{host}:{port} ...", file=sys.stderr)
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "stylerl.pipeline.prefect_server"),
            *(host, str(port), *["--ephemeral"] * private),
        ],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PREFECT_HOME": str(home())},
    )
    try:
        yield child
    finally:
        end_session(child)


def _wait_for(child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTUP
    while not answers():
        if child.poll() is not None or time.monotonic() > deadline:
            raise StylerlError(
                f"the Prefect server did not start at {url()}; `prefect "
                "server start` shows why (a full disk?). If the port is "
                f"taken, `export {NAME}=http://127.0.0.1:{free_port()}/api` "
                "in every shell"
            )
        time.sleep(0.05)


def _is_own() -> bool:
    """Whether the server that answers keeps this checkout's records."""
    theirs = _get("admin/settings")
    return isinstance(theirs, dict) and theirs.get("home") == str(home())


def _get(path: str) -> Any:
    """The API's answer, read as JSON; None where there is none.

    What listens there may be anything.
    """
    try:
        with urllib.request.urlopen(f"{url()}/{path}", timeout=PATIENCE) as r:
            return json.load(r)
    except (OSError, HTTPException, ValueError):
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
