"""A tab of a headless Chromium, driven by the DevTools protocol."""

import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
CALLS = itertools.count(1)


def find() -> str | None:
    """Where Chromium is installed; None where it is not."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browsing(chromium: str) -> Iterator[Connection]:
    """A tab of a fresh Chromium, by the DevTools protocol."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        child = subprocess.Popen(
            [chromium, *CHROMIUM, f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.DEVNULL,
        )
        try:
            announced = Path(profile, "DevToolsActivePort")
            while not (announced.exists() and announced.read_text()):
                time.sleep(0.1)
            port = announced.read_text().split()[0]
            listing = f"http://127.0.0.1:{port}/json"
            with urllib.request.urlopen(listing) as reply:
                tabs = json.load(reply)
            socket = next(
                tab["webSocketDebuggerUrl"]
                for tab in tabs
                if tab["type"] == "page"
            )
            with connect(socket, max_size=None) as tab:
                yield tab
        finally:
            child.terminate()
            child.wait()


def tell(
    tab: Connection,
    method: str,
    **params: Any,
) -> dict[str, Any]:
    """Call a DevTools method and wait for its result."""
    number = next(CALLS)
    tab.send(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        answer = json.loads(tab.recv(timeout=60))
        if answer.get("id") == number:
            return dict(answer.get("result", {}))
