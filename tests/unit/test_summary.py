"""The table and its meaning in words."""

import io
import math

import pandas as pd
import pytest
from rich.console import Console

from stylerl.evaluation import display, guards
from stylerl.report import summary

NUMBERS = {
    "compliance": 0.4,
    "non_trivial_compliance": 0.35,
    "score": 0.8,
    "violations": 1.5,
    "parse_rate": 0.9,
    "finished_rate": 0.95,
    "length": 40.0,
    "length_median": 35.0,
    "statements": 4.0,
    "trivial_share": 0.05,
    "distinct_3": 0.6,
    "repeated_lines": 0.1,
    "comment_share": 0.02,
    "noqa_share": 0.0,
    "copied_share": 0.0,
    "kl": 0.0,
    "bits_per_byte": 1.2,
    "ruff": 0.5,
    "ruff_docstrings": 0.1,
    "black": 0.2,
    "predicted_compliance": 0.6,
}
UNPAIRED = (
    "bits_per_byte",
    "length_median",
    "distinct_3",
    "predicted_compliance",
)


def metrics(after=(), gain=()):
    """An evaluation in which PPO changed only what is given."""
    still = {
        key + end: 0.0
        for key in NUMBERS
        if key not in UNPAIRED
        for end in ("", "_low", "_high")
    }
    return {
        "size": {"prompts": 200, "samples": 2, "validation": 0},
        "base": NUMBERS,
        "sft": NUMBERS,
        "ppo": NUMBERS | dict(after),
        "gain": still | dict(gain),
        "gain_sft": still,
    }


def compliance(centre, low, high):
    return {
        "compliance": centre,
        "compliance_low": low,
        "compliance_high": high,
    }


@pytest.mark.parametrize(
    ("after", "gain", "words"),
    [
        (
            0.62,
            compliance(0.22, 0.17, 0.26),
            "PPO raised compliance from 40.0% to 62.0%: +22.0 points (95% "
            "interval +17.0 to +26.0).",
        ),
        (
            0.42,
            compliance(0.02, -0.01, 0.05),
            "PPO did not change compliance measurably: from 40.0% to 42.0%, "
            "+2.0 points, and the 95% interval -1.0 to +5.0 holds zero.",
        ),
        (
            0.42,
            compliance(0.02, 0.0, 0.05),  # a bound on zero proves nothing
            "PPO did not change compliance measurably: from 40.0% to 42.0%, "
            "+2.0 points, and the 95% interval +0.0 to +5.0 holds zero.",
        ),
        (
            0.30,
            compliance(-0.1, -0.15, -0.05),
            "PPO lowered compliance from 40.0% to 30.0%: -10.0 points (95% "
            "interval -15.0 to -5.0). It did harm.",
        ),
    ],
)
def test_the_headline_says_what_happened(after, gain, words):
    assert summary.headline(metrics({"compliance": after}, gain)) == words


def test_a_gain_that_was_bought_is_said_with_its_price():
    bought = metrics(
        {"compliance": 0.62, "kl": 20.0, "statements": 1.0},
        compliance(0.22, 0.17, 0.26),
    )

    assert summary.headline(bought).endswith(
        "+26.0). But it cost: statements, KL to SFT."
    )


@pytest.mark.parametrize(
    ("after", "gain", "failed"),
    [
        ({}, {}, set()),
        # 35 tokens less 20% are 28, which still holds.
        ({"length_median": 28.0}, {}, set()),
        ({"length_median": 27.9}, {}, {"median length"}),
        ({"length_median": 42.1}, {}, {"median length"}),
        ({"statements": 3.1}, {}, {"statements"}),
        ({"distinct_3": 0.53}, {}, {"distinct-3"}),
        ({"kl": 15.1}, {}, {"KL to SFT"}),
        ({"bits_per_byte": 1.32}, {}, set()),  # 1.2 and a tenth of it
        ({"bits_per_byte": 1.33}, {}, {"bits per byte of human code"}),
        (
            {},
            {"noqa_share_low": 0.01, "noqa_share_high": 0.1},
            {"noqa"},
        ),
        (
            {},
            {"copied_share_low": 0.01, "copied_share_high": 0.1},
            {"copied prompts"},
        ),
        (
            {},
            {"comment_share_low": 0.01, "comment_share_high": 0.1},
            {"comment lines"},
        ),
        (
            {},
            {"finished_rate_low": -0.1, "finished_rate_high": -0.01},
            {"finished"},
        ),
        # Fewer parse, but the interval holds zero: no proof.
        ({}, {"parse_rate_low": -0.1, "parse_rate_high": 0.01}, set()),
        (
            {},
            {"parse_rate_low": -0.1, "parse_rate_high": -0.01},
            {"parse rate"},
        ),
        (
            {},
            {"trivial_share_low": 0.01, "trivial_share_high": 0.1},
            {"trivial bodies"},
        ),
        (
            {},
            {"repeated_lines_low": 0.01, "repeated_lines_high": 0.1},
            {"repeated lines"},
        ),
    ],
)
def test_guards_that_fail(after, gain, failed):
    found = guards.guards(metrics(after, gain))

    assert {guard.name for guard in found if not guard.held} == failed


def test_a_guard_on_nothing_fails_when_something_appears():
    before = metrics({"statements": 1.0})
    before["sft"] = NUMBERS | {"statements": 0.0}

    found = {guard.name: guard for guard in guards.guards(before)}

    assert not found["statements"].held


def test_values_and_differences_as_printed():
    share = next(m for m in display.TABLE if m.key == "compliance")

    assert display.show(share, 0.4) == "40.0"
    assert display.show(share, 0.4, signed=True) == "+40.0"
    assert display.show(share, -0.0001) == "0.0"  # never "-0.0"
    assert display.show(share, None) == "–"
    assert (
        display.show_gain(share, compliance(0.021, -0.01, 0.05))
        == "+2.1 [-1.0, +5.0]"
    )
    assert display.show_gain(share, {}) == "–"


def test_the_terminal_table_fits_80_columns():
    out = io.StringIO()
    gain = compliance(0.22, 0.17, 0.26)

    console = Console(file=out, width=80)
    console.print(summary.rich_table(metrics({"compliance": 0.62}, gain)))

    text = out.getvalue()
    assert "+22.0 [+17.0, +26.0]" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_markdown_has_a_row_for_each_metric():
    text = summary.markdown(metrics())

    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(display.TABLE) + 1
    assert {row.count("|") for row in rows} == {6}


def test_only_measured_baselines_are_listed():
    gain = {"over_sft": 0.1, "over_sft_low": 0.05, "over_sft_high": 0.15}
    best = NUMBERS | {"prompts": 100} | gain
    measured = metrics() | {"best_of_16": best, "best_of_4": best}

    listed = summary.baselines(measured)
    lines = summary.markdown(measured).splitlines()

    assert [label for label, _ in listed] == [
        "SFT, best of 4 by the classifier",
        "SFT, best of 16 by the classifier",
    ]
    assert listed[0][1] == [
        "100", "+10.0 [+5.0, +15.0]",
        "40.0", "0.800", "90.0", "40.0", "4.00",
    ]  # fmt: skip
    assert lines[-2] == (
        "| SFT, best of 4 by the classifier | 100 | +10.0 [+5.0, +15.0] "
        "| 40.0 | 0.800 | 90.0 | 40.0 | 4.00 |"
    )


def test_prompts_for_choosing_are_no_report():
    chosen = metrics()
    chosen["size"]["validation"] = 1

    assert "no report" in summary.basis(chosen)
    assert "no report" not in summary.basis(metrics())


def test_literal_prompts_are_not_called_held_out():
    literal = metrics()
    literal["size"]["literal"] = 1

    assert "literal prompts" in summary.basis(literal)
    assert "held-out prompts" in summary.basis(metrics())


def moved(key, low, high):
    return {key: (low + high) / 2, f"{key}_low": low, f"{key}_high": high}


RAISED = moved("compliance", 0.1, 0.2)


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (RAISED, "Only flake8 sees this gain: ruff's findings in 10 lines"),
        (
            RAISED | moved("ruff", 0.1, 0.3),
            "Only flake8 sees this gain: ruff's findings in 10 lines rose",
        ),
        (
            RAISED | moved("black", -0.2, -0.1),
            "Of the linters that no reward has seen, black agrees: ",
        ),
        (
            RAISED | moved("black", -0.2, -0.1) | moved("ruff", -0.3, -0.1),
            "Linters that no reward has seen agree: ruff's findings in 10 "
            "lines fell, 0.50 to 0.50, -0.20 [-0.30, -0.10]; the share of "
            "lines that black would change fell, 20.0 to 20.0, -15.0 "
            "[-20.0, -10.0] points.",
        ),
        (
            moved("compliance", -0.1, 0.1),  # there is no gain to agree with
            "Linters that no reward has seen: ruff's findings in 10 lines did "
            "not clearly change",
        ),
    ],
)
def test_a_gain_that_only_flake8_sees_is_said_so(gain, words):
    assert summary.external_linters(metrics(gain=gain)).startswith(words)


def test_rules_that_fell_rose_vanished_and_appeared():
    nan = float("nan")
    rules = pd.DataFrame(
        [
            ("E225", 5.0, 0.0, -8.0, -2.0),  # proven, so not only vanished
            ("E501", 1.0, 4.0, 1.0, 5.0),
            ("W291", 1.0, 0.0, -3.0, 1.0),
            ("E711", 0.0, 0.5, nan, nan),
            ("E302", 1.0, 1.0, -1.0, 1.0),
        ],
        columns=["rule", "sft", "ppo", "low", "high"],
    )

    assert summary.rule_changes(rules) == {
        "fell": ["E225"],
        "rose": ["E501"],
        "vanished": ["W291"],
        "appeared": ["E711"],
    }


def test_the_best_of_n_moves_so_far_at_most():
    # log 4 - 3/4 = 1.386 - 0.75; the best of one is the model itself.
    assert summary.kl_bound(1) == 0.0
    assert summary.kl_bound(4) == pytest.approx(1.3862944 - 0.75)
    assert summary.kl_bound(16) < math.log(16)
