"""The evaluation's metrics, on completions few enough to count."""

import math

import pandas as pd
import pytest

from stylerl.evaluation.measurement import metrics


def row(model, prompt, sample=0, **changes):
    """A compliant completion of four tokens, one statement."""
    return {
        "model": model,
        "prompt_id": prompt,
        "sample": sample,
        "prompt": "def f(x):\n",
        "completion": "    return x\n",
        "finished": True,
        "tokens": 4,
        "kl": 0.0,
        "outcome": "compliant",
        "parsed": True,
        "score": 1.0,
        "rows": [],
        "cols": [],
        "codes": [],
        "texts": [],
        "statements": 1,
        "trivial": False,
        "ruff": [],
        "reformatted": 0.0,
        "fixed_outcome": "compliant",
        "fixed_codes": [],
        "names": 1.0,
    } | changes


def broken(model, prompt, *codes, sample=0):
    """A completion with violations of these codes."""
    return row(
        model,
        prompt,
        sample,
        outcome="violations",
        score=1 - len(codes) / 10,
        rows=[2] * len(codes),
        cols=[1] * len(codes),
        codes=list(codes),
        texts=[f"about {code} (1 > 0)" for code in codes],
        fixed_outcome="violations",
        fixed_codes=list(codes),
    )


def test_the_line_that_was_cut_does_not_count():
    """Read is `a` of a and b; one line has content, with one finding."""
    text = "\n    return a\n    x = foo(b"
    cut = row("sft", "a", completion=text, finished=False, ruff=["N801"])
    cut |= {"prompt": "def f(a, b):"}

    means = metrics.compute_metrics(pd.DataFrame([cut]))

    assert (means["used_arguments"], means["ruff"]) == (0.5, 10)


def test_where_ruff_judges_flake8_is_the_one_not_seen():
    # Three lines with content, two findings: 10 * 2 / 3 in ten lines.
    text = "\n    a\n    b\n    c\n"
    seen = row("sft", "a", completion=text, flake8=["E225", "E231"])
    del seen["ruff"]

    found = metrics.external_metrics(pd.DataFrame([seen]))

    assert [*found] == ["flake8", "reformatted", "resolved_names"]
    assert found["flake8"].tolist() == [pytest.approx(20 / 3)]


def test_each_number_of_two_completions():
    # One compliant, one unfinished with one violation, eight tokens and a
    # KL of 3; its lines: a comment, x = 1 and x = 1 again.
    rows = pd.DataFrame(
        [
            row("sft", "a"),
            broken("sft", "b", "E225")
            | {
                "outcome": "unfinished",
                "finished": False,
                "parsed": False,
                "score": 0.0,
                "tokens": 8,
                "kl": 3.0,
                "completion": "    # noqa\n    x = 1\n    x = 1\n",
                "statements": 0,
                "trivial": True,
                "ruff": None,
                "reformatted": math.nan,
            },
        ]
    )

    numbers = metrics.compute_metrics(rows)

    # 3-grams: "return x" has none; "# noqa x = 1 x = 1" has 8 lexemes, so
    # 6 of them, and "x = 1" twice: 5 distinct.
    assert numbers == pytest.approx(
        {
            "compliance": 1 / 2,
            "non_trivial_compliance": 1 / 2,
            "score": 1 / 2,
            "violations": 1 / 2,
            "parse_rate": 1 / 2,
            "finished_rate": 1 / 2,
            "length": 6,
            "long_share": 0,
            "statements": 1,  # of the one that parses
            "trivial_share": 1 / 2,
            "idle_share": 0,
            "used_arguments": 1 / 2,  # x, and not where it is bound alone
            "repeated_lines": (0 + 1 / 3) / 2,
            "comment_share": (0 + 1 / 3) / 2,
            "docstring_share": 0,
            "noqa_share": 1 / 2,
            "copied_share": 0,
            "kl": 1.5,
            "length_median": 6,
            "distinct_3": 5 / 6,
            "ruff": 0,  # of the one that parses
            "reformatted": 0,
            "resolved_names": 1,
            "residual_compliance": 1 / 2,
            "residual_violations": 1 / 2,
        },
        abs=1e-6,
    )


def test_external_linters_count_lines_of_what_parses():
    # Two findings on four lines, 5 in ten; none on one line.  The mean is
    # 2.5; what does not parse is not asked.
    four = "    a = 1\n    b = 2\n\n    c = 3\n    return a\n"
    rows = pd.DataFrame(
        [
            row("sft", "a", completion=four, ruff=["N806", "B007"]),
            row("sft", "b", reformatted=0.5),
            row("sft", "c", parsed=False, ruff=["N806"] * 9, reformatted=1.0),
        ]
    )

    numbers = metrics.compute_metrics(rows)

    assert numbers["ruff"] == 2.5
    assert numbers["reformatted"] == 0.25


def test_a_prompt_where_nothing_parses_has_no_say_in_external_linters():
    # a: what is reformatted falls from 0.5 to 0; b cannot be read after PPO.
    before = pd.DataFrame([row("sft", p, reformatted=0.5) for p in "ab"])
    after = pd.DataFrame(
        [row("ppo", "a"), row("ppo", "b", parsed=False, reformatted=math.nan)]
    )

    gain = metrics.compute_gains(after, before, 100, seed=0)

    assert (gain["reformatted"], gain["reformatted_low"]) == (-0.5, -0.5)
    assert gain["parse_rate"] == -0.5


def test_a_baseline_is_compared_on_its_own_prompts():
    # SFT fails on a and b; the baseline answers a alone, and is compliant.
    sft = pd.DataFrame([broken("sft", p, "E225") for p in "ab"])
    best = pd.DataFrame([row("best_of_4", "a")])

    assert metrics.compare_with_sft(best, sft, 100, seed=0) == {
        "prompts": 1,
        "over_sft": 1.0,
        "over_sft_low": 1.0,
        "over_sft_high": 1.0,
        "over_sft_standardised": 1.0,
        "over_sft_standardised_low": 1.0,
        "over_sft_standardised_high": 1.0,
    }


def test_an_empty_body_is_compliant_but_not_sound():
    rows = pd.DataFrame([row("sft", "a"), row("sft", "b", trivial=True)])

    numbers = metrics.compute_metrics(rows)

    assert (numbers["compliance"], numbers["non_trivial_compliance"]) == (
        1.0,
        0.5,
    )


def test_what_has_no_kl_reports_none():
    assert "kl" not in metrics.compute_metrics(
        pd.DataFrame([row("human", "a", kl=math.nan)])
    )


def test_gains_are_paired_by_prompt_not_by_order():
    # Prompt a: 1 of 2 compliant, then 2 of 2: +1/2.  Prompt b: 0 of 2,
    # then 0 of 2: 0.  Mean gain 1/4; two prompts give an interval from the
    # smaller difference to the larger, 0 to 1/2.
    before = pd.DataFrame(
        [
            row("sft", "a", 0),
            broken("sft", "a", "E225", sample=1),
            broken("sft", "b", "E225", sample=0),
            broken("sft", "b", "E225", sample=1),
        ]
    )
    after = pd.DataFrame(
        [
            broken("ppo", "b", "E225", sample=0),
            broken("ppo", "b", "E225", sample=1),
            row("ppo", "a", 0),
            row("ppo", "a", 1),
        ]
    )

    gain = metrics.compute_gains(after, before, 4000, seed=0)

    assert gain["compliance"] == 0.25
    assert (gain["compliance_low"], gain["compliance_high"]) == (0.0, 0.5)
    assert (gain["length"], gain["length_low"]) == (0.0, 0.0)


def test_rules_are_counted_per_hundred_completions():
    # Six prompts, one completion each.  SFT breaks E225 on all six, PPO on
    # none: 100 to 0, and no prompt differs, so the interval has no width.
    # W291 stands in one completion of PPO's: 100 / 6, too rare for an
    # interval.  E501 is the base's alone, twice in one of six: 200 / 6.
    prompts = "abcdef"
    table = pd.DataFrame(
        [row("base", p) for p in prompts[1:]]
        + [broken("base", "a", "E501", "E501")]
        + [broken("sft", p, "E225") for p in prompts]
        + [row("ppo", p) for p in prompts[1:]]
        + [broken("ppo", "a", "W291")]
        + [broken("autopep8", p, "E999") for p in prompts]
    )

    found = metrics.tabulate_rules(table, 200, seed=0).set_index("rule")

    assert list(found.index) == ["E225", "E501", "W291"]
    assert found.loc["E225", "text"] == "about E225"
    assert found.loc["E225", ["base", "sft", "ppo"]].tolist() == [0, 100, 0]
    assert found.loc["E225", ["change", "low", "high"]].tolist() == [-100] * 3
    assert found.loc["W291", "ppo"] == pytest.approx(100 / 6)
    assert math.isnan(found.loc["W291", "low"])
    assert found.loc["E501", "base"] == pytest.approx(200 / 6)
    assert found.loc["E501", "change"] == 0


def test_without_a_violation_there_is_no_rule():
    table = pd.DataFrame([row(m, "a") for m in ("base", "sft", "ppo")])

    found = metrics.tabulate_rules(table, 200, seed=0)

    assert found.empty
    assert list(found) == [
        "rule", "text", "base", "sft", "ppo", "change", "low", "high",
        "sft_fixed", "ppo_fixed",
    ]  # fmt: skip
