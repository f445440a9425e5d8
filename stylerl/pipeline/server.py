"""Where the Prefect API is, whether it answers, and a server where not.

Nothing here imports Prefect, whose settings are read once on import: what
this module finds out decides what they will be.
"""

import os
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stylerl.errors import StylerlError
from stylerl.pipeline.child import end_session

DEFAULT = "http://127.0.0.1:4200/api"
STARTUP = 120.0  # seconds a server may take


def url() -> str:
    """PREFECT_API_URL, or what pyproject.toml of this folder says."""
    if configured := os.environ.get("PREFECT_API_URL"):
        return configured
    file = Path("pyproject.toml")
    if not file.exists():
        return DEFAULT
    settings = tomllib.loads(file.read_text()).get("tool", {})
    api: dict[str, str] = settings.get("prefect", {}).get("api", {})
    return api.get("url", DEFAULT)


def address() -> tuple[str, int]:
    """Host and port of the API."""
    parts = urllib.parse.urlsplit(url())
    return parts.hostname or "127.0.0.1", parts.port or 4200


def answers() -> bool:
    """Whether a server is there and healthy."""
    try:
        with urllib.request.urlopen(f"{url()}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


@contextmanager
def server(private: bool = False) -> Iterator[None]:
    """A Prefect server for as long as the block runs.

    One that answers already is used, and left running.  To be entered
    before Prefect is imported.

    Args:
        private: take any free port, for this process and its children
            alone; otherwise the configured address.

    Raises:
        StylerlError: the server does not start.
    """
    if answers():
        yield
        return
    if private:
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    host, port = address()
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "stylerl.pipeline.process"),
            *(sys.executable, "-m", "prefect", "server", "start"),
            *("--host", host, "--port", str(port)),
        ],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        print(f"starting Prefect on http://{host}:{port} ...", file=sys.stderr)
        _wait_for(child)
        yield
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
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
