"""Where the Prefect API is, whether it answers, and a server where not.

A server that the user named (PREFECT_API_URL, prefect.toml, a profile) is
used or, where it does not answer, refused.  Without one, a server at the
default address is used if it keeps this checkout's records, and another is
started if not.

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
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stylerl.errors import StylerlError
from stylerl.pipeline.child import end_session

DEFAULT = "http://127.0.0.1:4200/api"
NAME = "PREFECT_API_URL"
STARTUP = 120.0  # seconds a server may take
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class Api(NamedTuple):
    """An address, and where the user gave it."""

    url: str
    named_in: str  # empty: nowhere, it is the default


def find() -> Api:
    """The API that is meant.

    Unlike Prefect, which reads pyproject.toml first, a profile counts: it
    is the user's choice, and pyproject.toml holds our default.
    """
    if given := os.environ.get(NAME):
        return Api(given, NAME)
    dotenv = re.search(
        rf"""^\s*(?:export\s+)?{NAME}\s*=\s*["']?([^"'\s]+)""",
        _text(Path(".env")),
        re.MULTILINE,
    )
    if dotenv:
        return Api(dotenv[1], ".env")
    named = _toml(Path("prefect.toml")).get("api", {}).get("url")
    if named:
        return Api(named, "prefect.toml")
    for file in _profile_files():
        content = _toml(file)
        active = os.environ.get("PREFECT_PROFILE") or content.get("active")
        profile = content.get("profiles", {}).get(active, {})
        if named := profile.get(NAME):
            return Api(named, f"profile {active} in {file}")
    named = _pyproject().get("api", {}).get("url", DEFAULT)
    return Api(named, "" if named == DEFAULT else "pyproject.toml")


def url() -> str:
    """The address of the API that is meant."""
    return find().url


def address() -> tuple[str, int]:
    """Host and port of the API."""
    parts = urllib.parse.urlsplit(url())
    return parts.hostname or "127.0.0.1", parts.port or 4200


def home() -> Path:
    """The folder of this checkout's records, as Prefect's settings have it."""
    configured = os.environ.get("PREFECT_HOME") or _pyproject().get("home")
    return Path(configured or "~/.prefect").expanduser().resolve()


def answers() -> bool:
    """Whether a server is there and healthy."""
    return _get("health") is not None


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
    api = find()
    if api.named_in:
        os.environ[NAME] = api.url  # for Prefect, and for every child
    if answers():
        if api.named_in or _is_own():
            yield lambda: None
            return
        if not private:
            raise StylerlError(
                "a Prefect server that is adopted must be this checkout's; "
                f"{api.url} keeps the records of another: in every shell, "
                f"`export {NAME}={api.url}` to use it all the same, or "
                f"`export {NAME}=http://127.0.0.1:{free_port()}/api` for one "
                "of its own"
            )
    elif api.named_in and (private or address()[0] not in LOOPBACK):
        raise StylerlError(
            f"the Prefect API must answer where {api.named_in} names it; "
            f"{api.url} does not: start it, or take the name away to use a "
            "server of this checkout's own"
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
                "server start` shows why (is the port taken?)"
            )
        time.sleep(0.05)


def _is_own() -> bool:
    """Whether the server that answers keeps this checkout's records."""
    settings = json.loads(_get("admin/settings") or "{}")
    return bool(settings.get("home") == str(home()))


def _get(path: str) -> bytes | None:
    """What the API answers; None where it does not."""
    try:
        with urllib.request.urlopen(f"{url()}/{path}", timeout=2) as reply:
            return reply.read() if reply.status == 200 else None
    except (OSError, urllib.error.URLError, ValueError):
        return None


def _profile_files() -> Iterator[Path]:
    """Where a profile may be, the nearest first."""
    if named := os.environ.get("PREFECT_PROFILES_PATH"):
        yield Path(named)
    yield home() / "profiles.toml"
    yield Path("~/.prefect/profiles.toml").expanduser()


def _pyproject() -> dict[str, Any]:
    """Prefect's settings in pyproject.toml of this folder."""
    tools = _toml(Path("pyproject.toml")).get("tool", {})
    return dict(tools.get("prefect", {}))


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise StylerlError(f"{file} is not TOML: {error}; mend it") from error


def _text(file: Path) -> str:
    """The file's text, empty where there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
