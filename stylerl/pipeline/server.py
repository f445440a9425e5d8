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
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from stylerl.errors import StylerlError
from stylerl.pipeline import reach
from stylerl.pipeline.child import end_session

DEFAULT = "http://127.0.0.1:4200/api"
NAME = "PREFECT_API_URL"
DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
STARTUP = 120.0  # seconds a server may take
PATIENCE = 2.0  # seconds that an answer may take
LONGEST = 2**20  # bytes of an answer


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
        rf"""^\s*(?:export[ \t]+)?{NAME}[ \t]*=[ \t]*["']?([^"'\s]+)""",
        _text(Path(".env")),
        re.MULTILINE,
    )
    if dotenv:
        return Api(dotenv[1], ".env")
    if named := _value(_toml(Path("prefect.toml")), "api", "url"):
        return Api(named, "prefect.toml")
    for file in _profile_files():
        content = _toml(file)
        active = os.environ.get("PREFECT_PROFILE") or _value(content, "active")
        if named := _value(content, "profiles", active, NAME):
            return Api(named, f"profile {active} in {file}")
    named = _pyproject("api", "url") or DEFAULT
    return Api(named, "" if named == DEFAULT else "pyproject.toml")


def url() -> str:
    """The address of the API that is meant."""
    return find().url.rstrip("/")


def address() -> tuple[str, int]:
    """Host and port of the API."""
    parts = _split(url())
    return parts.hostname or "127.0.0.1", parts.port or 4200


def home() -> Path:
    """The folder of this checkout's records, as Prefect's settings have it."""
    configured = os.environ.get("PREFECT_HOME") or _pyproject("home")
    return _expanded(configured or "~/.prefect").resolve()


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
    api = find()
    parts = _split(api.url)
    if api.named_in or NAME in os.environ:  # which empty is none to Prefect
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
    elif api.named_in and (private or not _may_start(parts)):
        raise StylerlError(
            f"the Prefect API must answer where {api.named_in} names it; "
            f"{reach.shown(api.url)} does not: start it, or take the name "
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
    with suppress(OSError):  # nobody is there, as it should be
        socket.create_connection((host, port), PATIENCE).close()
        raise StylerlError(
            f"a Prefect server must have a port of its own; {port} is taken "
            f"by something else: stop that, or `export {NAME}="
            f"http://127.0.0.1:{free_port()}/api` in every shell"
        )
    records = {"PREFECT_HOME": str(home())}
    named = DATABASE in os.environ
    if not named and {*"%?"} & {*str(home())}:  # which Prefect does not quote
        database = reach.sqlite(home() / "prefect.db")
        database = database.replace("sqlite", "sqlite+aiosqlite", 1)
        records[DATABASE] = database
    print(f"starting Prefect on http://{host}:{port} ...", file=sys.stderr)
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "stylerl.pipeline.prefect_server"),
            *(host, str(port), *["--ephemeral"] * private),
        ],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **records},
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
    return _value(_get("admin/settings"), "home") == str(home())


def _split(url: str) -> SplitResult:
    """The parts of an address.

    Raises:
        StylerlError: it is none that a server could have.
    """
    with suppress(ValueError):
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname
        if usable and parts.port != 0 and re.fullmatch(r"[^\s\0-\x1f]+", url):
            return parts
    raise StylerlError(
        "the Prefect API must be at http://HOST:PORT/api, or https; "
        f"{find().named_in} names {reach.shown(url)[:80]!r}: correct it, or "
        "take it away to use a server of this checkout's own"
    )


def _may_start(parts: SplitResult) -> bool:
    """Whether a server of ours would be found at the address."""
    here = parts.hostname in reach.LOOPBACK and parts.port
    return bool(here) and (parts.scheme, parts.path.rstrip("/")) == (
        "http",
        "/api",
    )


def _get(path: str) -> Any:
    """What the API answers, read as JSON; None where that is not so.

    What listens there may be anything.
    """

    def ask() -> Any:
        with urllib.request.urlopen(
            f"{url()}/{path}", timeout=PATIENCE
        ) as reply:
            return json.loads(reply.read(LONGEST))

    try:
        return reach.within(PATIENCE * 1.2, ask)
    except (OSError, HTTPException, ValueError, RecursionError):
        return None


def _profile_files() -> Iterator[Path]:
    """Where a profile may be, the nearest first."""
    if named := os.environ.get("PREFECT_PROFILES_PATH"):
        yield Path(named)
    yield home() / "profiles.toml"
    yield _expanded("~/.prefect/profiles.toml")


def _expanded(path: str) -> Path:
    """The path with the user's home, if there is one."""
    return Path(os.path.expanduser(path))


def _pyproject(*keys: str) -> str:
    """One of Prefect's settings in pyproject.toml of this folder."""
    return _value(_toml(Path("pyproject.toml")), "tool", "prefect", *keys)


def _value(tree: Any, *keys: str) -> str:
    """What a tree holds below the keys, empty where it holds nothing."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return "" if tree is None else str(tree)


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise StylerlError(f"{file} is not TOML: {error}; mend it") from error


def _text(file: Path) -> str:
    """The file's text, empty where there is none."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
