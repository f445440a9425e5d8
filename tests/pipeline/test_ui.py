"""mlflow/server.sh: a port that is taken, and pages that are not its own."""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import wait_for

from stylerl.pipeline.server import free_port

SCRIPT = Path(__file__).resolve().parents[2] / "mlflow/server.sh"


def command(port: int, store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(SCRIPT)],
        env={**os.environ, "PORT": str(port), "STORE": str(store)},
        stdout=(store / "said").open("w"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = command(taken.getsockname()[1], tmp_path)
        _, said = server.communicate(timeout=60)
    assert "address already in use" in said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("50%41 a'b?c#ü")


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    number = free_port()
    server = command(number, folder)
    try:
        wait_for(lambda: answers(number, server))
        yield number
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate()


def answers(port: int, server: subprocess.Popen[str]) -> bool:
    assert server.poll() is None, "the server died"
    try:
        return ask(port, {}) == 200
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Host": "10.evil.example:{port}"}, 403),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 403),
    ],
)
def test_a_foreign_page_is_refused(
    port: int, headers: dict[str, str], status: int
) -> None:
    assert ask(port, headers) == status


@pytest.mark.slow
def test_the_link_opens_on_runs(port: int, folder: Path) -> None:
    """Not on traces; a new store's first experiment is number 1."""
    runs, *_ = (folder / "said").read_text().splitlines()
    start = f"http://127.0.0.1:{port}/#/experiments/1"
    assert runs == f"runs: {start}/runs?workflowType=machine_learning"


def ask(port: int, headers: dict[str, str]) -> int:
    """The status that a search for experiments gets."""
    given = {name: text.format(port=port) for name, text in headers.items()}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search",
        json.dumps({"max_results": 1}).encode(),
        {"Content-Type": "application/json", **given},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
