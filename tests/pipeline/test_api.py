"""Which Prefect server is used, whose it must be, and who may ask it."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stylerl.errors import StylerlError
from stylerl.pipeline import server as api

TOML = '[api]\nurl = "http://a:1/api"\n'
PROFILE = 'active = "x"\n[profiles.x]\nPREFECT_API_URL = "http://a:1/api"\n'
OURS = '[tool.prefect]\nhome = ".prefect"\n'
NOBODY = "http://127.0.0.1:9/api"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing names a server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    Path("pyproject.toml").write_text(OURS)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "named_in"),
    [
        (".env", "A=1\nexport PREFECT_API_URL='http://a:1/api'\n", ".env"),
        ("prefect.toml", TOML, "prefect.toml"),
        ("me/.prefect/profiles.toml", PROFILE, "profile x in "),
        (".prefect/profiles.toml", PROFILE, "profile x in "),
        ("pyproject.toml", f"[tool.prefect]\n{TOML}", ""),
        (
            "pyproject.toml",
            TOML.replace("[api]", "[tool.prefect.api]"),
            "pyproject.toml",
        ),
    ],
)
def test_a_server_may_be_named_in(
    folder: Path, file: str, text: str, named_in: str
) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)
    found = api.find()
    expected = "http://a:1/api" if named_in else api.DEFAULT
    assert found.url == expected
    assert found.named_in.startswith(named_in)
    os.environ["PREFECT_API_URL"] = "http://b:2/api"
    assert api.find() == ("http://b:2/api", "PREFECT_API_URL")


def test_a_profile_that_is_not_active_names_nothing(folder: Path) -> None:
    text = PROFILE.replace('active = "x"', 'active = "y"')
    Path(".prefect").mkdir()
    Path(".prefect/profiles.toml").write_text(text)
    assert api.find() == (api.DEFAULT, "")
    os.environ["PREFECT_PROFILE"] = "x"
    assert api.find().url == "http://a:1/api"


@pytest.mark.parametrize(
    ("url", "private"),
    [
        (NOBODY, True),  # a run has none of its own then
        ("http://a.invalid:4200/api", True),
        ("http://a.invalid:4200/api", False),  # and none starts elsewhere
    ],
)
@pytest.mark.parametrize("place", ["PREFECT_API_URL", "profile x"])
def test_a_named_server_that_does_not_answer_is_refused(
    folder: Path, url: str, private: bool, place: str
) -> None:
    if place == "PREFECT_API_URL":
        os.environ[place] = url
    else:
        Path(".prefect").mkdir()
        text = PROFILE.replace("http://a:1/api", url)
        Path(".prefect/profiles.toml").write_text(text)
    with (
        pytest.raises(StylerlError, match=f"where {place}.*; {url} does not"),
        api.server(private),
    ):
        pass


def test_a_folder_s_broken_toml_is_named(folder: Path) -> None:
    Path("prefect.toml").write_text("[api")
    with pytest.raises(StylerlError, match="prefect.toml is not TOML"):
        api.find()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of another checkout, which serves pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("other"))
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


@pytest.mark.slow
def test_its_own_pages_are_served(running: str) -> None:
    page = running.removesuffix("/api")
    with urllib.request.urlopen(page, timeout=30) as reply:
        assert b"<html" in reply.read()
