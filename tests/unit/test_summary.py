"""The table and its meaning in words."""

import io
import re

import pytest
from rich.console import Console
from rich.markdown import Markdown

from stylerl.evaluation import display, guards
from stylerl.evaluation.measurement import standardised
from stylerl.report import summary

NUMBERS = {
    "residual_compliance": 0.5,
    "residual_violations": 0.9,
    "standardised_residual": 0.5,
    "residual_cut": None,  # of a gain alone
    "standardised_compliance": 0.4,
    "compliance": 0.4,
    "non_compliance_cut": None,  # of a gain alone
    "non_trivial_compliance": 0.35,
    "score": 0.8,
    "violations": 1.5,
    "parse_rate": 0.9,
    "finished_rate": 0.95,
    "length": 40.0,
    "length_median": 35.0,
    "long_share": 0.15,
    "statements": 4.0,
    "trivial_share": 0.05,
    "idle_share": 0.04,
    "used_arguments": 0.7,
    "resolved_names": 0.9,
    "distinct_3": 0.6,
    "repeated_lines": 0.1,
    "comment_share": 0.02,
    "docstring_share": 0.03,
    "noqa_share": 0.0,
    "copied_share": 0.0,
    "kl": 0.0,
    "skill": 0.5,
    "skill_of_10": 0.75,
    "skill_greedy": 0.55,
    "joint": 0.4,
    "skill_style": 0.45,
    "skill_compliance": 0.8,
    "bits_per_byte": 1.2,
    "ruff": 0.5,
    "reformatted": 0.2,
}
UNPAIRED = (
    "joint",
    "skill_compliance",
    "residual_compliance",
    "residual_violations",
    "standardised_residual",
    "residual_cut",
    "bits_per_byte",
    "length_median",
    "distinct_3",
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
    """Gains in compliance, the same at SFT's lengths, from 40%."""
    return {
        key + end: value / scale
        for key, scale in (
            ("compliance", 1),
            ("standardised_compliance", 1),
            ("non_compliance_cut", 0.6),
        )
        for end, value in (("", centre), ("_low", low), ("_high", high))
    }


def moved(key, low, high):
    return {key: (low + high) / 2, f"{key}_low": low, f"{key}_high": high}


# 60 in 100 do not comply, so 0.6 of that is a gain of 36 points.
@pytest.mark.parametrize(
    ("after", "gain", "words"),
    [
        (
            0.79,
            compliance(0.39, 0.36, 0.42),
            "PPO cut non-compliance by 65.0 [60.0, 70.0]%: compliance rose "
            "from 40.0% to 79.0%, +39.0 [+36.0, +42.0] points; at SFT's "
            "lengths to 79.0%, +39.0 [+36.0, +42.0] points.",
        ),
        (
            0.62,
            compliance(0.22, 0.17, 0.26)
            | moved("standardised_compliance", -0.01, 0.05),
            "PPO cut non-compliance by 36.7 [28.3, 43.3]%: compliance rose "
            "from 40.0% to 62.0%, +22.0 [+17.0, +26.0] points; at SFT's "
            "lengths to 62.0%, +2.0 [-1.0, +5.0] points. Missed goals: "
            "non-compliance cut, gain at SFT's lengths.",
        ),
        (
            0.42,
            compliance(0.02, 0.0, 0.05),  # a bound on zero proves nothing
            "PPO did not change compliance measurably: from 40.0% to 42.0%, "
            "+2.0 [0.0, +5.0] points; at SFT's lengths to 42.0%, "
            "+2.0 [0.0, +5.0] points. Missed goals: non-compliance cut, gain "
            "at SFT's lengths.",
        ),
        (
            0.30,
            compliance(-0.1, -0.15, -0.05),
            "PPO lowered compliance from 40.0% to 30.0%, "
            "-10.0 [-15.0, -5.0] points; at SFT's lengths to 30.0%, "
            "-10.0 [-15.0, -5.0] points. It did harm. Missed goals: "
            "non-compliance cut, gain at SFT's lengths.",
        ),
    ],
)
def test_the_headline_says_what_happened(after, gain, words):
    changed = {"compliance": after, "standardised_compliance": after}

    assert summary.headline(metrics(changed, gain)) == words


def test_the_first_sentence_alone_is_bold():
    found = metrics({}, {"compliance_low": 0.01})
    shown = summary.bold_headline(found)
    bold, rest = re.fullmatch(r"\*\*(.*\.)\*\*(.*)", shown).groups()
    assert bold.startswith("PPO cut non-compliance by")
    assert f"{bold}{rest}" == summary.headline(found)


@pytest.mark.parametrize(
    ("low", "said", "missed"),
    [
        # Half of what does not comply is gone: 50 points, of which a fifth.
        (
            0.05,
            "cut non-compliance by 20.0 [10.0, 30.0]%: compliance rose "
            "from 50.0% to 60.0%, +10.0 [+5.0, +15.0] points; at SFT's "
            "lengths to 50.0%, 0.0 [-5.0, +5.0] points.",
            "",
        ),
        (
            0.0,
            "did not change compliance measurably: from 50.0% to 60.0%, "
            "+7.5 [0.0, +15.0] points; at SFT's lengths to 50.0%, "
            "0.0 [-5.0, +5.0] points.",
            ", gain after the fixer",
        ),
    ],
)
def test_the_headline_begins_with_what_the_fixer_leaves(low, said, missed):
    measured = metrics(
        {"residual_compliance": 0.6},
        compliance(0.22, 0.17, 0.26)
        | moved("residual_compliance", low, 0.15)
        | moved("standardised_residual", -0.05, 0.05)
        | moved("residual_cut", 0.1, 0.3),
    )
    words = summary.headline(measured)
    assert words.startswith(
        f"After ruff's fixes and format, PPO {said} As written, it cut "
        "non-compliance by 36.7 [28.3, 43.3]%: compliance rose from 40.0%"
    )
    assert words.endswith(f" Missed goals: non-compliance cut{missed}.")


def test_the_headline_says_whether_the_model_does_its_job():
    measured = metrics({"joint": 0.45}, moved("joint", 0.01, 0.09))
    assert (
        " On HumanEval 40.0% and 45.0% are right and compliant, "
        "+5.0 [+1.0, +9.0] points." in summary.headline(measured)
    )


def test_a_gain_that_was_bought_is_said_with_its_price():
    bought = metrics(
        {"compliance": 0.62, "kl": 20.0, "statements": 1.0},
        compliance(0.22, 0.17, 0.26),
    )

    assert summary.headline(bought).endswith(
        " Missed goals: non-compliance cut. Failed guards: statements, KL to "
        "SFT."
    )


def test_what_an_evaluation_lacks_has_no_row():
    gain = compliance(0.36, 0.3, 0.4)
    old = metrics({"compliance": 0.76}, gain)
    new = {"standardised_compliance", "long_share", "non_compliance_cut"}
    for name in ("base", "sft", "ppo", "gain", "gain_sft"):
        old[name] = {
            key: value
            for key, value in old[name].items()
            if not key.startswith(tuple(new))
        }

    labels = {metric.label for metric in display.TABLE if metric.key in new}
    rows = summary.markdown(old).splitlines()
    assert not labels & {
        row.split("|")[1].strip() for row in rows if row[:1] == "|"
    }


@pytest.mark.parametrize(
    ("cut", "gain", "missed"),
    [
        (0.6, (0.01, 0.3), []),
        (0.599, (0.01, 0.3), ["non-compliance cut"]),
        (0.6, (0.0, 0.3), ["gain at SFT's lengths"]),
        (0.6, (-0.3, -0.1), ["gain at SFT's lengths"]),
    ],
)
def test_goals_that_are_missed(cut, gain, missed):
    found = guards.goals(
        metrics(
            gain=moved("standardised_compliance", *gain)
            | {"non_compliance_cut": cut}
        )
    )

    assert [goal.name for goal in found if not goal.held] == missed


@pytest.mark.parametrize(
    ("low", "high", "held"),
    [(-0.2, -0.1, True), (-0.1, 0.3, True), (0.01, 0.3, False)],
)
def test_a_linter_that_no_reward_has_seen_must_not_find_more(low, high, held):
    found = guards.goals(metrics(gain=moved("ruff", low, high)))

    assert [g.held for g in found if "ruff" in g.name] == [held]


def test_with_nothing_to_cut_there_is_no_cut():
    clean = metrics({"compliance": 1.0})
    clean["sft"] = NUMBERS | {"compliance": 1.0}
    del clean["gain"]["non_compliance_cut"]

    assert "non-compliance cut" not in [g.name for g in guards.goals(clean)]


def test_a_long_body_is_as_long_as_its_label_says():
    label = display.metric_of("long_share").label

    assert f"above {standardised.LONG} tokens" in label


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
        ({}, moved("noqa_share", 0.01, 0.1), {"noqa"}),
        ({}, moved("copied_share", 0.01, 0.1), {"copied prompts"}),
        ({}, moved("comment_share", 0.01, 0.1), {"comment lines"}),
        ({}, moved("finished_rate", -0.1, -0.01), {"finished"}),
        # Fewer parse, but the interval holds zero: no proof.
        ({}, moved("parse_rate", -0.1, 0.01), set()),
        ({}, moved("parse_rate", -0.1, -0.01), {"parse rate"}),
        ({}, moved("trivial_share", 0.01, 0.1), {"trivial bodies"}),
        ({}, moved("idle_share", 0.01, 0.1), {"idle code"}),
        ({}, moved("used_arguments", -0.1, -0.01), {"arguments used"}),
        ({}, moved("repeated_lines", 0.01, 0.1), {"repeated lines"}),
    ],
)
def test_guards_that_fail(after, gain, failed):
    found = guards.guards(metrics(after, gain))

    assert {guard.name for guard in found if not guard.held} == failed


def test_of_a_model_that_ends_few_bodies_nothing_is_said_at_lengths():
    found = metrics({}, {})
    found["base"] = NUMBERS | {"finished_rate": 0.1}
    lengths = display.metric_of("standardised_compliance")
    plain = display.metric_of("compliance")

    assert display.show_models(lengths, found) == ["–", "40.0", "40.0"]
    assert display.show_models(plain, found)[0] == "40.0"


def test_where_no_prompt_has_arguments_no_guard_is_on_them():
    found = guards.guards(metrics({}, moved("used_arguments", 0.0, 0.0)))
    gone = metrics({}, {})
    for key in [k for k in gone["gain"] if k.startswith("used_arguments")]:
        del gone["gain"][key]
    without = guards.guards(gone)

    assert {g.name for g in found} - {g.name for g in without} == {
        "arguments used"
    }


def test_a_guard_on_nothing_fails_when_something_appears():
    before = metrics({"statements": 1.0})
    before["sft"] = {k: v for k, v in NUMBERS.items() if k != "statements"}

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
    gain = compliance(0.22, 0.17, 0.26) | moved("score", -0.083, 0.25)

    console = Console(file=out, width=80)
    whole = metrics({"compliance": 1.0, "reformatted": 1.0}, gain)
    console.print(Markdown(summary.markdown(whole)))

    text = out.getvalue()
    assert "+22.0 [+17.0, +26.0]" in text
    assert text.count(" 100.0 ") == 2  # no number is broken
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_markdown_has_a_row_for_each_metric():
    text = summary.markdown(metrics())

    rows = [line for line in text.splitlines() if line.startswith("| ")]
    # A run has ruff or flake8, whichever did not judge.
    assert len(rows) == len(display.TABLE)
    assert {row.count("|") for row in rows} == {6}


@pytest.mark.parametrize(("over", "named"), [(0.09, False), (0.1, True)])
@pytest.mark.parametrize(
    ("key", "gained", "words"),
    [
        ("over_sft", "compliance", "as well or better"),
        (
            "over_sft_standardised",
            "standardised_compliance",
            "as well or better at SFT's lengths",
        ),
    ],
)
def test_a_rival_that_does_as_well_is_in_the_headline(
    over, named, key, gained, words
):
    rival = moved(key, over - 0.05, over + 0.05)
    gain = compliance(0.3, 0.25, 0.35) | moved(gained, 0.05, 0.15)
    found = metrics(gain=gain) | {
        "linter_best_of_4": NUMBERS | {"prompts": 100} | rival
    }

    said = (
        f"A rival does {words}: SFT, best of 4 by the linter (+10.0 [+5.0, "
        "+15.0] points over SFT on 100 prompts)"
    )
    assert (said in summary.headline(found)) == named


def test_what_ppo_adds_to_choosing_is_said_beside_the_rivals():
    each = {
        name: NUMBERS | {"residual_compliance": value}
        for name, value in (
            ("linter_best_of_2", 0.9),
            ("ppo_linter_best_of_2", 0.95),
        )
    }
    gain = moved("residual_compliance", 0.01, 0.09)
    found = metrics() | each | {"gain_best_of": gain}
    found["size"] = found["size"] | {"samples": 2}

    assert (
        "With the best of 2 by the linter taken of both, 90.0% of SFT's and "
        "95.0% of PPO's comply after the fixer, +5.0 [+1.0, +9.0] points."
    ) in summary.headline(found)
    assert "taken of both" not in summary.headline(metrics())


def test_only_measured_baselines_are_listed():
    gain = moved("over_sft", 0.05, 0.15)
    gain |= moved("over_sft_standardised", 0.02, 0.06)
    best = NUMBERS | {"prompts": 100} | gain
    measured = metrics() | {"best_of_16": best, "best_of_4": best}

    heads, *listed = summary.baselines(measured)
    lines = summary.markdown(measured).splitlines()

    assert [label for label, *_ in listed] == [
        "SFT, best of 4 by the classifier",
        "SFT, best of 16 by the classifier",
    ]
    assert listed[0][1:] == [
        "100", "+10.0 [+5.0, +15.0]", "+4.0 [+2.0, +6.0]",
        "40.0", "50.0", "90.0", "40.0", "15.0", "4.00",
    ]  # fmt: skip
    assert len(heads) == len(listed[0])
    assert summary.baselines(metrics()) == []
    assert lines[-2] == (
        "| SFT, best of 4 by the classifier | 100 | +10.0 [+5.0, +15.0] "
        "| +4.0 [+2.0, +6.0] | 40.0 | 50.0 | 90.0 | 40.0 | 15.0 | 4.00 |"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [("validation", "no report"), ("literal", "literal prompts")],
)
def test_prompts_that_are_not_held_out_are_called_what_they_are(kind, words):
    found = metrics()
    assert words not in summary.basis(found)
    assert "held-out prompts" in summary.basis(found)
    found["size"][kind] = 1
    assert words in summary.basis(found)


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
            RAISED
            | moved("reformatted", -0.2, -0.1)
            | moved("ruff", -0.3, -0.1),
            "Linters that no reward has seen: ruff's findings in 10 lines "
            "fell, 0.50 to 0.50, -0.20 [-0.30, -0.10]; the share of "
            "lines that the fixer changes fell, 20.0 to 20.0, -15.0 "
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


def test_where_ruff_judges_it_alone_may_see_the_gain():
    found = metrics(gain=RAISED | moved("flake8", 0.1, 0.3))
    found["gain"] = {
        key: value
        for key, value in found["gain"].items()
        if not key.startswith("ruff")
    }
    for model in ("sft", "ppo"):
        found[model] = found[model] | {"flake8": 1.0}
    assert summary.external_linters(found).startswith(
        "Only ruff sees this gain: flake8's findings in 10 lines, of rules "
        "that ruff's lack rose, 1.00 to 1.00, +0.20 [+0.10, +0.30]"
    )
