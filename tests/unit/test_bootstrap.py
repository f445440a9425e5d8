"""Bootstrap intervals against cases worked out by hand."""

import numpy as np
import pytest

from stylerl.errors import DataError
from stylerl.evaluation.measurement.bootstrap import (
    Interval,
    paired_intervals,
    simultaneous_intervals,
)


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float).reshape(-1, 1)


def test_two_prompts_give_the_three_possible_means():
    # Draws of two from {0, 1}: mean 0 with 1/4, 1/2 with 1/2, 1 with 1/4.
    # The 2.5% quantile is therefore 0 and the 97.5% quantile 1, while the
    # middle 40% (30% to 70%) lies wholly on 1/2.
    wide = paired_intervals(column(0, 1), 4000, seed=0)
    narrow = paired_intervals(column(0, 1), 4000, seed=0, level=0.4)

    assert wide == [Interval(0.5, 0.0, 1.0)]
    assert narrow == [Interval(0.5, 0.5, 0.5)]


def test_equal_differences_have_an_interval_of_no_width():
    interval = paired_intervals(column(0.25, 0.25, 0.25), 200, seed=1)[0]

    assert interval == pytest.approx((0.25, 0.25, 0.25))


@pytest.mark.parametrize("how", [paired_intervals, simultaneous_intervals])
def test_many_prompts_agree_with_the_normal_formula(how):
    # 400 prompts, half 0 and half 1: the standard error of the mean is
    # 0.5 / sqrt(400) = 0.025, so the interval is 0.5 -+ 1.96 x 0.025 =
    # (0.451, 0.549).  Of one column held at once with itself alone, the
    # largest deviation is its own: c is the 95% quantile of |z|, 1.96.
    values = column(*([0.0, 1.0] * 200))

    interval = how(values, 20_000, seed=2)[0]

    assert interval.estimate == 0.5
    assert interval.low == pytest.approx(0.451, abs=0.003)
    assert interval.high == pytest.approx(0.549, abs=0.003)


def test_columns_see_the_same_prompts():
    # The second column is the first plus one, so under the same draws its
    # interval is the first's, shifted by one.
    first = column(0.1, 0.9, 0.4, 0.2, 0.7)

    alone, shifted = paired_intervals(
        np.hstack([first, first + 1]), 500, seed=3
    )

    assert shifted == pytest.approx([bound + 1 for bound in alone])


def test_same_seed_same_interval():
    values = column(*np.linspace(0, 1, 30))

    assert paired_intervals(values, 300, 7) == paired_intervals(values, 300, 7)
    assert paired_intervals(values, 300, 7) != paired_intervals(values, 300, 8)


def test_twenty_independent_columns_widen_the_intervals():
    # All of 20 independent |z| stay below c with 95% when
    # P(|z| < c) = 0.95 ** (1 / 20) = 0.99744, so c = 3.02: 1.54 times the
    # 1.96 of one column.
    draws = np.random.default_rng(5).normal(size=(2000, 20))

    wide = simultaneous_intervals(draws, 4000, seed=6)
    width = np.array([interval.high - interval.low for interval in wide])

    error = draws.std(axis=0) / np.sqrt(2000)
    assert width / (2 * error) == pytest.approx(3.02, abs=0.2)


def test_a_column_that_never_varies_does_not_widen_the_others():
    varied = column(*([0.0, 1.0] * 50))
    constant = np.full((100, 1), 0.5)

    alone = simultaneous_intervals(varied, 500, seed=9)[0]
    beside, still = simultaneous_intervals(
        np.hstack([varied, constant]), 500, seed=9
    )

    assert beside == pytest.approx(alone)
    assert still == pytest.approx((0.5, 0.5, 0.5))


def test_what_cannot_be_resampled_is_refused():
    with pytest.raises(DataError, match="finite"):
        paired_intervals(np.array([[np.nan]]), 100, seed=0)
