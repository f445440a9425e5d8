"""autopep8 as a baseline: what it mends, what it leaves, what it survives."""

import signal

import autopep8
import pytest

from stylerl.evaluation import baselines
from stylerl.evaluation.baselines import Draft, autoformat

PROMPT = "def f(a,b):\n"  # E231, and the prompt's own


def test_only_rows_behind_the_prompt_change():
    text = PROMPT + "    x=a\n    if x == None :\n        return b ;\n\n\n"

    (fixed,) = autoformat([Draft(text, 1)], 79)

    assert fixed == PROMPT + (
        "    x = a\n    if x is None:\n        return b\n"
    )


def test_what_does_not_parse_comes_back():
    text = PROMPT + "    return (((\n"

    assert autoformat([Draft(text, 1)], 79) == [text]


def crash(*_):
    raise RuntimeError("autopep8 tripped")


def hang(*_):
    while True:
        pass


@pytest.mark.parametrize("fault", [crash, hang])
def test_a_crash_or_a_hang_leaves_the_text(fault, monkeypatch):
    monkeypatch.setattr(autopep8, "fix_code", fault)
    monkeypatch.setattr(baselines, "SECONDS", 0.2)
    before = signal.getsignal(signal.SIGVTALRM)

    assert autoformat([Draft("x=1\n", 0)], 79) == ["x=1\n"]
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
