"""`stylerl prefer --web` in a real browser, by its keys alone."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import write_params
from websockets.sync.connection import Connection

from stylerl.config import Params
from stylerl.reward_models import preferences
from stylerl.reward_models.preferences import Choice
from tools import browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.find(), reason="needs Chromium"),
]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the page is, in a folder with three pairs to answer."""
    monkeypatch.chdir(tmp_path)
    write_params()
    rows = [
        {"prompt": f"def f{i}(a):", "a": "\n    return a\n", "b": "\n    a\n"}
        for i in range(3)
    ]
    Path("pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = ["-m", "stylerl.cli.main", "prefer", "--web", "--from"]
    child = subprocess.Popen(
        [sys.executable, *command, "pairs.jsonl", "--annotator", "ann"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    found = None
    while not found:
        line = child.stdout.readline()
        assert line, "the command ended before it said where the page is"
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
    yield found[0]
    child.send_signal(2)
    rest = child.communicate(timeout=60)[0]
    assert child.returncode == 0
    assert "2 answers saved to preferences.jsonl" in rest


def text(tab: Connection) -> str:
    """What stands on the page; nothing while it loads."""
    asked = {"expression": "document.body.innerText", "returnByValue": True}
    found = browser.tell(tab, "Runtime.evaluate", **asked)["result"]
    return str(found.get("value", ""))


def wait_for(tab: Connection, words: str) -> None:
    for _ in range(100):
        if words in text(tab):
            return
        time.sleep(0.1)
    raise AssertionError(f"no {words!r} on the page: {text(tab)}")


def press(tab: Connection, keys: str) -> None:
    for key in keys:
        browser.tell(tab, "Input.dispatchKeyEvent", type="keyDown", key=key)
        browser.tell(tab, "Input.dispatchKeyEvent", type="keyUp", key=key)


def test_keys_answer(address: str) -> None:
    found = browser.find()
    assert found
    with browser.browsing(found) as tab:
        browser.tell(tab, "Page.navigate", url=address)
        wait_for(tab, "0 of 3")
        assert "def f0(a):" in text(tab)
        press(tab, "t2")
        wait_for(tab, "1 of 3")
        assert "def f1(a):" in text(tab)
        press(tab, "3A")  # in either order, and in capitals
        wait_for(tab, "2 of 3")
        assert "Answers go to preferences.jsonl" in text(tab)
    tie, better = preferences.load(Path("preferences.jsonl"))
    assert (tie.pair.prompt, tie.choice, tie.confidence) == (
        "def f0(a):",
        Choice.TIE,
        2,
    )
    swapped = preferences.is_swapped(better.pair, "ann", Params().seed)
    assert better.choice is (Choice.B if swapped else Choice.A)
    assert better.confidence == 3
