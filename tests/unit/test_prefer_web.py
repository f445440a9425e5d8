"""`stylerl prefer --web`: what its page shows, takes and refuses."""

import errno
import os
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from stylerl.cli import prefer_web
from stylerl.reward_models import preferences
from stylerl.reward_models.preferences import Answer, Choice, Pair

HERE = "http://127.0.0.1:8000"
PAIRS = [
    Pair.of(f"def f{i}(a):", "\n    return a\n", "\n    '<b>&\x1b'\n")
    for i in range(3)
]


@pytest.fixture
def session(tmp_path: Path) -> prefer_web.Session:
    return prefer_web.Session(PAIRS, "ann", 0, tmp_path / "answers.jsonl")


@pytest.fixture
def client(session: prefer_web.Session) -> TestClient:
    app = prefer_web.build_app(session)
    return TestClient(app, base_url=HERE, follow_redirects=False)


def hidden(page: str) -> dict[str, str]:
    """The page's token and pair."""
    return dict(re.findall(r'name="(token|pair)" value="([^"]+)"', page))


def test_answers_are_kept_as_the_pair_names_them(
    client: TestClient,
    session: prefer_web.Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second_swapped = {PAIRS[0]: False, PAIRS[1]: True, PAIRS[2]: True}
    monkeypatch.setattr(
        preferences, "is_swapped", lambda pair, *_: second_swapped[pair]
    )
    for choice, sure in (("a", "3"), ("a", "1"), ("tie", "2")):
        form = hidden(client.get("/").text)
        reply = client.post("/", data={**form, "choice": choice, "sure": sure})
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
    assert preferences.load(session.path) == [
        Answer("ann", PAIRS[0], Choice.A, 3),
        Answer("ann", PAIRS[1], Choice.B, 1),  # what was shown as A
        Answer("ann", PAIRS[2], Choice.TIE, 2),
    ]
    page = client.get("/").text
    assert "3 of 3" in page
    assert "Nothing waits for ann" in page


def test_completions_are_text(client: TestClient) -> None:
    page = client.get("/").text
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;␛&#39;" in page


def test_a_form_sent_twice_is_one_answer(
    client: TestClient, session: prefer_web.Session
) -> None:
    form = {**hidden(client.get("/").text), "choice": "a", "sure": "1"}
    for _ in range(2):
        assert client.post("/", data=form).status_code == 303
    assert len(preferences.load(session.path)) == 1
    assert session.given == 1


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"token": "guess"}, 403, "reload the page"),
        ({"token": "ü"}, 403, "reload the page"),
        ({"choice": "x"}, 400, "no such answer"),
        ({"sure": "9"}, 400, "no such answer"),
    ],
)
def test_anything_else_is_refused(
    change: dict[str, str],
    status: int,
    words: str,
    client: TestClient,
    session: prefer_web.Session,
) -> None:
    form = {**hidden(client.get("/").text), "choice": "a", "sure": "1"}
    reply = client.post("/", data={**form, **change})
    assert reply.status_code == status
    assert words in reply.text
    assert not session.path.exists()


def test_a_page_runs_its_own_script_alone(client: TestClient) -> None:
    reply = client.get("/")
    policy = reply.headers["content-security-policy"]
    (nonce,) = re.findall(r"'nonce-([^']+)'", policy)
    assert "default-src 'none'; " in policy
    assert re.findall(r"<script[^>]*>", reply.text) == [
        f'<script nonce="{nonce}">'
    ]


def test_a_page_from_elsewhere_cannot_read(client: TestClient) -> None:
    """DNS rebinding: the browser asks us under a foreign name."""
    reply = client.get("/", headers={"Host": "evil.example:8000"})
    assert reply.status_code == 400
    assert "token" not in reply.text


def test_a_full_disk_is_said_and_the_pair_asked_again(
    client: TestClient,
    session: prefer_web.Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    form = {**hidden(client.get("/").text), "choice": "a", "sure": "1"}
    monkeypatch.setattr(Path, "open", full)
    reply = client.post("/", data=form)
    assert reply.status_code == 507
    assert "full" in reply.text
    assert session.waiting[0] == PAIRS[0]
    assert session.given == 0
