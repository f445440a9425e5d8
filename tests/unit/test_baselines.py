"""Formatters as baselines and as judges; the best of n."""

import signal

import autopep8
import pandas as pd
import pytest
from test_metrics import row

from stylerl.errors import StylerlError
from stylerl.evaluation.measurement import baselines, format_worker, formatters
from stylerl.evaluation.measurement.formatters import Draft

PROMPT = "def f(a,b):\n"  # E231, and the prompt's own


def test_only_rows_behind_the_prompt_change():
    text = PROMPT + "    x=a\n    if x == None :\n        return b ;\n\n\n"

    (fixed,) = formatters.autopep8([Draft(text, 1)], 79, "test")

    assert fixed == PROMPT + (
        "    x = a\n    if x is None:\n        return b\n"
    )


def test_answers_come_in_the_order_of_the_drafts():
    # Five drafts over the processes of this machine, one or many.
    drafts = [Draft(f"x={n}\n", 0) for n in range(5)]

    fixed = formatters.autopep8(drafts, 79, "test")

    assert fixed == [f"x = {n}\n" for n in range(5)]
    assert formatters.autopep8([], 79, "test") == []


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ("    x = 1\n    return x\n", 0.0),
        ("    x=1\n    return x\n", 1 / 2),  # one row of two
        ("    x = 1\n    return 'x'\n", 1 / 2),  # black's quotes
        # black puts a blank line behind the import: a row of two
        ("    import os\n    return os\n", 1 / 2),
        ("    return (\n", None),  # does not parse
        ("", None),  # nothing to judge
    ],
)
def test_black_counts_the_rows_it_would_change(body, share):
    # The prompt's own row, which black would change, is not charged.
    assert formatters.black([Draft(PROMPT + body, 1)], 79, "test") == [share]


def crash(*_, **__):
    raise RuntimeError("the formatter tripped")


def hang(*_, **__):
    while True:
        pass


def go_on(*_, **__):
    """Catch what it can, and the first signal of all as a destructor does."""
    try:
        hang()
    except BaseException:
        try:
            hang()
        except Exception:
            hang()


@pytest.fixture
def impatient(monkeypatch):
    """A limit of 0.2 seconds, and its signal for the test's time."""
    monkeypatch.setattr(format_worker, "SECONDS", 0.2)
    before = signal.signal(signal.SIGVTALRM, format_worker.give_up)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("fault", [crash, hang, go_on])
def test_a_crash_or_a_hang_costs_one_text(fault, monkeypatch, impatient):
    monkeypatch.setattr(autopep8, "fix_code", fault)
    monkeypatch.setattr(format_worker.black, "format_str", fault)

    assert format_worker.format_rows("x=1\n", 0, 79) == "x=1\n"
    assert format_worker.changed_share("x=1\n", 0, 79) is None
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_process_that_dies_is_an_error(monkeypatch, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import sys\nsys.stdin.read()\nsys.exit(3)\n")
    monkeypatch.setattr(formatters, "SCRIPT", script)

    with pytest.raises(StylerlError, match="ended with code 3"):
        formatters.autopep8([Draft("x=1\n", 0)], 79, "test")


def test_the_best_of_n_is_the_first_of_the_best_rewarded():
    # a: of its first two, the second; of four, the fourth.  b has two
    # samples of equal reward, and no best of four.
    rewards = {"a": [0.1, 0.5, 0.2, 0.9], "b": [0.3, 0.3]}
    rows = pd.DataFrame(
        [
            row("sft", prompt, n, reward=reward, completion=f"{prompt}{n}")
            for prompt, given in rewards.items()
            for n, reward in enumerate(given)
        ]
    )

    two, four = (baselines.best_of(rows, n) for n in (2, 4))

    assert two["completion"].tolist() == ["a1", "b0"]
    assert four["completion"].tolist() == ["a3"]
    assert four["model"].tolist() == ["best_of_4"]
    assert four["kl"].isna().all()
