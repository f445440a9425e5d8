"""Which Prefect server is used, whose it must be, and who may ask it."""

import asyncio
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from stylerl.errors import StylerlError
from stylerl.pipeline import reach
from stylerl.pipeline import server as api
from stylerl.pipeline.prefect_server import OwnPages

OURS = '[tool.prefect]\nhome = ".prefect"\n'
NOBODY = "http://127.0.0.1:9/api"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing names a server."""
    monkeypatch.chdir(tmp_path)
    for name in ("PREFECT_API_URL", "PREFECT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    Path("pyproject.toml").write_text(OURS)
    return tmp_path


NO_ADDRESS = ["garbage", "ftp://127.0.0.1/api", "http://a b/api"]
SILENT = "API_URL names it; {} does not: start it"
UNUSABLE = [
    (NOBODY, True, SILENT),  # a run has none of its own then
    ("http://a.invalid:4200/api", True, SILENT),
    ("http://a.invalid:4200/api", False, SILENT),  # and none starts there,
    ("http://127.0.0.1:9", False, SILENT),  # nor where none would be found
    ("http://127.0.0.1:9/prefect/api", False, SILENT),
    ("https://127.0.0.1:9/api", False, SILENT),
    ("http://127.0.0.1/api", False, SILENT),
    *((url, True, SILENT) for url in NO_ADDRESS),
    *((url, False, SILENT) for url in NO_ADDRESS),
]


@pytest.mark.parametrize(("url", "private", "words"), UNUSABLE)
def test_a_named_server_that_cannot_be_used_is_refused(
    folder: Path, url: str, private: bool, words: str
) -> None:
    os.environ["PREFECT_API_URL"] = url
    with (
        pytest.raises(StylerlError, match=words.format(url)),
        api.server(private),
    ):
        pass


START = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {  # of what is no Prefect server
    "ssh": [b"SSH-2.0-OpenSSH\r\n"],
    "bytes": [b"\0\1\2"],
    "html": [START + b"Content-Length: 6\r\n\r\n<html>"],
    "list": [START + b"Content-Length: 2\r\n\r\n[]"],
    "error": [b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"],
    "cut": [START + b"Content-Length: 60\r\n\r\ntru"],
    "long": [START + b"X: " + b"y" * 70_000],
    "many": [START + b"X: y\r\n" * 200],
    "chunks": [START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "turns": [b"HTTP/1.1 302 Oh\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"],
    "slow": [START, *[b"X: y\r\n"] * 40],
    "silent": [],
}


@contextmanager
def answering(parts: list[bytes]) -> Iterator[int]:
    """The port of what answers every call so, a part each 0.1 seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    call, _ = listener.accept()
                    calls.append(call)
                    call.recv(4096)
                    for part in parts:
                        call.sendall(part)
                        time.sleep(0.1 if len(parts) > 1 else 0)
                    if parts:
                        call.close()

        calls: list[socket.socket] = []
        Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_no_prefect_is_not_used(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where it is named, nor at the default address."""
    monkeypatch.setattr(api, "PATIENCE", 0.2)
    with answering(ANSWERS[kind]) as port:
        url = f"http://127.0.0.1:{port}/api"
        os.environ["PREFECT_API_URL"] = url
        with (
            pytest.raises(StylerlError, match="does not: start it"),
            api.server(private=True),
        ):
            pass
        del os.environ["PREFECT_API_URL"]
        monkeypatch.setattr(api, "DEFAULT", url)
        assert not api.answers()


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PATIENCE", 0.2)
    with answering(ANSWERS["ssh"]) as port:
        monkeypatch.setattr(api, "DEFAULT", f"http://127.0.0.1:{port}/api")
        with (
            pytest.raises(StylerlError, match="If the port is taken, `export"),
            api.server() as wait_for_it,
        ):
            wait_for_it()


@pytest.mark.parametrize(
    ("given", "spared"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "a.example"}, "a.example,127.0.0.1,localhost,::1"),
        ({"no_proxy": "a,localhost"}, "a,localhost,127.0.0.1,::1"),
        ({"no_proxy": "*"}, "*"),
    ],
)
def test_no_proxy_is_asked_for_this_machine(
    given: dict[str, str], spared: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        os.environ.pop(name, None)
    os.environ.update(given)
    reach.spare_loopback()
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == spared


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of another checkout, which serves pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("a'b c#ü"))
        patch.setattr(os, "environ", os.environ.copy())
        Path("pyproject.toml").write_text(OURS)
        own = f"http://127.0.0.1:{api.free_port()}/api"
        os.environ["PREFECT_API_URL"] = own
        with api.server() as wait_for_it:
            wait_for_it()
            assert api.answers()
            with api.server() as again:  # the same one, left running
                again()
            assert api.answers()
            yield own
        assert not api.answers()


@pytest.mark.slow
def test_only_a_server_of_this_checkout_is_adopted_unasked(
    running: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "DEFAULT", running)
    with (
        pytest.raises(StylerlError, match="keeps the records of another"),
        api.server(),
    ):
        pass
    with api.server(private=True) as wait_for_it:  # one of its own
        assert api.url() != running
        # links in the log are to where `make serve` will show the record
        shown = os.environ["PREFECT_UI_URL"]
        assert shown == running.removesuffix("/api")
        wait_for_it()
        assert api.answers()
        own = os.environ.pop("PREFECT_API_URL")
        monkeypatch.setattr(api, "DEFAULT", own)
        with api.server(private=True):  # is this checkout's
            assert api.url() == own
    os.environ["PREFECT_API_URL"] = running
    with api.server(private=True):  # was named
        assert api.url() == running


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # a program
        ({"Origin": "{own}"}, 200),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another local page
        ({"Host": "evil.example:{port}"}, 403),  # a rebound name
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 403),
        ({"Origin": "http://evil.example", "Content-Type": "text/plain"}, 403),
    ],
)
def test_a_foreign_page_is_refused(
    running: str, headers: dict[str, str], status: int
) -> None:
    own = running.removesuffix("/api")
    port = own.rpartition(":")[2]
    given = {
        name: value.format(own=own, port=port)
        for name, value in headers.items()
    }
    request = urllib.request.Request(
        f"{running}/deployments/filter",
        json.dumps({}).encode(),
        {"Content-Type": "application/json", **given},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert reply.status == status
    except urllib.error.HTTPError as refusal:
        assert refusal.code == status
        assert b"own pages" in refusal.read()


@pytest.mark.parametrize(
    ("host", "origin", "passed"),
    [
        (b"127.0.0.1:4200", b"http://127.0.0.1:4200", True),
        (b"127.0.0.1:4200", None, True),
        (b"127.0.0.1:4200", b"null", False),
        (b"127.0.0.1:4200", b"http://evil.example", False),
        (b"evil.example:4200", b"http://evil.example:4200", False),
    ],
)
def test_a_foreign_page_s_websocket_is_closed(
    host: bytes, origin: bytes | None, passed: bool
) -> None:
    """A browser opens one to anywhere, without asking the server."""
    sent: list[Any] = []

    async def app(*_: object) -> None:
        sent.append("passed on")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {}

    headers = [(b"host", host), *([(b"origin", origin)] if origin else [])]
    scope = {"type": "websocket", "headers": headers}
    asyncio.run(OwnPages(app, 4200)(scope, receive, send))
    closed = {"type": "websocket.close", "code": 1008}
    assert sent == (["passed on"] if passed else [closed])


@pytest.mark.slow
def test_its_own_pages_are_served(running: str) -> None:
    page = running.removesuffix("/api")
    with urllib.request.urlopen(page, timeout=30) as reply:
        assert b"<html" in reply.read()
