"""Compliance at another model's lengths, on counts worked out by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_metrics import broken, row

from stylerl.evaluation.measurement import metrics, standardised

SHORT, LONG = 5, 160  # tokens: the first stratum, and the last


def table(model: str, *bodies: tuple[str, int, bool]) -> pd.DataFrame:
    """Completions as (prompt, tokens, whether it complies)."""
    return pd.DataFrame(
        [
            (row if good else broken)(model, prompt, *([] if good else ["E1"]))
            | {"tokens": tokens, "sample": number}
            for number, (prompt, tokens, good) in enumerate(bodies)
        ]
    )


def counts(*strata: tuple[int, int]) -> Any:
    """A tally (2, S): completions and compliant ones, stratum by stratum."""
    rows = np.zeros((2, len(standardised.EDGES) + 1))
    rows[:, : len(strata)] = np.array(strata).T
    return rows


@pytest.mark.parametrize(
    ("tokens", "stratum"),
    [
        (0, 0),
        (10, 0),
        (11, 1),
        (15, 1),
        (20, 2),
        (21, 3),
        (45, 4),
        (46, 5),
        (110, 6),
        (111, 7),
        (900, 7),
    ],
)
def test_an_edge_is_the_last_of_its_stratum(tokens: int, stratum: int) -> None:
    rows = table("sft", ("a", tokens, True))

    ((written, compliant),) = standardised.tally(rows, pd.Index(["a"]))

    wanted = [float(number == stratum) for number in range(8)]
    assert written.tolist() == compliant.tolist() == wanted


@pytest.mark.parametrize(
    ("own", "reference", "expected"),
    [
        # Its own lengths: 6 of 10.
        (counts((6, 5), (4, 1)), counts((6, 5), (4, 1)), 0.6),
        # The reference's halves: (9/9 + 0/1) / 2, where 9 of 10 comply.
        (counts((9, 9), (1, 0)), counts((5, 4), (5, 1)), 0.5),
        # Weights 3/4 and 1/4: 3/4 x 2/4 + 1/4 x 1 = 5/8.
        (counts((4, 2), (2, 2)), counts((3, 0), (1, 0)), 0.625),
        # Nothing long was written: the reference's 1 of 5 there.
        # (5 x 10/10 + 1) / 10 = 0.6.
        (counts((10, 10), (0, 0)), counts((5, 4), (5, 1)), 0.6),
        # What the reference never wrote has no weight: 1/2 and not 2/3.
        (counts((2, 1), (1, 1)), counts((5, 4), (0, 0)), 0.5),
    ],
)
def test_strata_are_weighted_as_the_reference_has_them(
    own: Any, reference: Any, expected: float
) -> None:
    assert standardised.standardise(own, reference) == expected


def test_a_model_that_only_stops_writing_long_bodies_gains_nothing() -> None:
    # SFT: half are short, of which 4 in 5 comply, half are long, 1 in 5.
    # Then all are short: 80% comply, and none of the 30 points is style.
    reference = counts((5, 4), (5, 1))
    own = counts((10, 8), (0, 0))

    assert standardised.plain(reference) == 0.5
    assert standardised.plain(own) == 0.8
    assert standardised.standardise(own, reference) == 0.5


@pytest.mark.parametrize(
    ("after", "before", "gone"),
    [
        (0.9, 0.75, 0.6),  # of 25 in 100, 15 are gone
        (0.75, 0.75, 0.0),
        (0.5, 0.75, -1.0),  # twice as many
        (1.0, 0.5, 1.0),
        (1.0, 1.0, math.nan),  # nothing was there to cut
    ],
)
def test_the_share_of_violating_completions_that_are_gone(
    after: float, before: float, gone: float
) -> None:
    found = float(standardised.cut(np.array(after), np.array(before)))

    assert found == pytest.approx(gone, nan_ok=True)


def test_gains_carry_intervals_of_whole_prompts() -> None:
    # Before: prompt a has a short compliant body and a long bad one, b two
    # long bad ones: 1 of 4 complies.  After: all four are short; a's comply,
    # b's do not: 2 of 4.  At the lengths before (1 short, 3 long, nothing
    # long after): short 2 of 4, long as before 0 of 3, so (1 x 1/2 + 0) / 4
    # = 1/8, a gain of 1/8 - 1/4 = -1/8.
    # Resamples: ab 1/2, aa 1/4, bb 1/4.
    #   aa: short 4 of 4; before 2 short of 2, 2 long of 0: 1/2 to 1/2, gain 0
    #   bb: 0 of 4; before 4 long of 0: gain 0
    # so the 95% interval is -1/8 to 0.
    before = table(
        "sft",
        ("a", SHORT, True),
        ("a", LONG, False),
        ("b", LONG, False),
        ("b", LONG, False),
    )
    after = table(
        "ppo",
        ("a", SHORT, True),
        ("a", SHORT, True),
        ("b", SHORT, False),
        ("b", SHORT, False),
    )

    gain = metrics.compute_gains(after, before, 4000, seed=0)

    assert gain["compliance"] == 0.25
    ends = [gain[f"standardised_compliance{end}"] for end in metrics.ENDS]
    assert ends == [-0.125, -0.125, 0]
    # 3 of 4 violate before and 2 after: a third is gone.  aa: 1/2 to 0, all
    # gone; bb: none.
    ends = [gain[f"non_compliance_cut{end}"] for end in metrics.ENDS]
    assert ends == [pytest.approx(1 / 3, abs=1e-6), 0, 1]
    # Long bodies: a 1/2 to 0, b 1 to 0.
    ends = [gain[f"long_share{end}"] for end in metrics.ENDS]
    assert ends == [-0.75, -1, -0.5]
    numbers = metrics.compute_metrics(after, reference=before)
    assert numbers["standardised_compliance"] == 0.125
    assert (numbers["compliance"], numbers["long_share"]) == (0.5, 0)


def test_a_resample_with_nothing_to_cut_has_no_say() -> None:
    # b complies before, so a draw of b and b has nothing to cut; a and b
    # alike, or a twice, lose all of it.
    before = table("sft", ("a", SHORT, False), ("b", SHORT, True))
    after = table("ppo", ("a", SHORT, True), ("b", SHORT, True))

    gain = metrics.compute_gains(after, before, 200, seed=0)

    ends = [gain[f"non_compliance_cut{end}"] for end in metrics.ENDS]
    assert ends == [1, 1, 1]
    assert "non_compliance_cut" not in metrics.compute_gains(
        after, after, 200, seed=0
    )


def test_a_gain_may_be_told_at_a_third_models_lengths() -> None:
    # The base has 1 of 1 short and 0 of 1 long, SFT writes long ones alone,
    # of which all comply: at SFT's lengths the base has 0 and SFT gains 1.
    base = table("base", ("a", SHORT, True), ("a", LONG, False))
    sft = table("sft", ("a", LONG, True), ("a", LONG, True))

    gain = metrics.compute_gains(sft, base, 100, seed=0, reference=sft)

    assert gain["compliance"] == 0.5
    assert gain["standardised_compliance"] == 1
