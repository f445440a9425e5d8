"""The share of the variance between prompts, worked out by hand."""

import math

import numpy as np
import pytest

from stylerl.cli import between_prompts as between


@pytest.mark.parametrize(
    ("values", "share"),
    [
        # Means 1 and 3, overall 2: MSB = 2 x (1 + 1) / 1 = 4.  Within: each
        # row is off its mean by 1 twice, so MSW = (2 + 2) / (2 x 1) = 2.
        # (4 - 2) / (4 + 1 x 2) = 1/3.
        ([[0, 2], [2, 4]], 1 / 3),
        # Nothing within: all of it lies between.
        ([[1, 1, 1], [2, 2, 2]], 1),
        # Nothing between: MSB = 0, so (0 - MSW) / (0 + (k - 1) MSW) =
        # -1 / (k - 1), the least there is.
        ([[0, 1], [1, 0], [0, 1]], -1),
        ([[0, 1, 2], [2, 1, 0]], -1 / 2),
        # Means 0, 1/3, 1, overall 4/9.  Sum of squares between: 16/81 + 1/81
        # + 25/81 = 42/81 = 14/27; MSB = 3 x 14/27 / 2 = 7/9.  Within: 0 +
        # (4/9 + 1/9 + 1/9) + 0 = 2/3; MSW = 2/3 / (3 x 2) = 1/9.
        # (7/9 - 1/9) / (7/9 + 2/9) = 6/9.
        ([[0, 0, 0], [1, 0, 0], [1, 1, 1]], 2 / 3),
    ],
)
def test_the_share_between_prompts(values: list[list[int]], share: float):
    found = between.share_between(np.array(values, dtype=float))

    assert found.estimate == pytest.approx(share)
    assert found.low <= found.high


def test_equal_values_have_no_share() -> None:
    found = between.share_between(np.full((3, 4), 0.5))

    assert all(map(math.isnan, found))


def test_the_interval_holds_a_known_share() -> None:
    # A prompt's own part has variance 1, a sample's 3: ICC = 1/4.  With 400
    # prompts of 4 the standard error is about sqrt(2 (3/4)^2 (7/4)^2 /
    # (4 x 3 x 399)) = 0.027.
    random = np.random.default_rng(0)
    values = random.normal(size=(400, 1)) + random.normal(
        scale=3**0.5, size=(400, 4)
    )

    found = between.share_between(values)

    assert found.low < 0.25 < found.high
    assert (found.high - found.low) / 2 == pytest.approx(2 * 0.027, rel=0.3)


@pytest.mark.parametrize(
    ("share", "samples", "variance"),
    [
        (0.0, 4, 4 / 3),
        (0.25, 4, 1.0),  # it pays where k > 1 / ICC: 4 are just not enough
        (0.25, 5, 15 / 16),
        (0.5, 4, 2 / 3),
    ],
)
def test_variance_of_a_group_by_hand(
    share: float, samples: int, variance: float
) -> None:
    assert between.group_variance(share, samples) == pytest.approx(variance)


def test_a_leave_one_out_mean_has_that_variance() -> None:
    # By simulation: the variance of x less its siblings' mean, over that of x
    # about the mean of all, at ICC 1/4 and k = 4: (3/4)(4/3) = 1.
    random = np.random.default_rng(1)
    values = random.normal(size=(50_000, 1)) + random.normal(
        scale=3**0.5, size=(50_000, 4)
    )
    siblings = (values.sum(axis=1, keepdims=True) - values) / 3

    ratio = (values - siblings).var() / values.var()

    assert ratio == pytest.approx(between.group_variance(1 / 4, 4), abs=0.02)


@pytest.mark.parametrize(
    ("share", "samples", "words"),
    [
        (0.05, 4, "a group of 4 has 1.27 times the variance of the batch's "
         "mean; it would pay above 20 samples a prompt"),
        (0.5, 4, "a group of 4 has 0.67 times the variance of the batch's "
         "mean; it pays above 2 samples a prompt"),
        (-0.01, 4, "a group of 4 has 1.35 times the variance of the batch's "
         "mean; no size of it would pay"),
        (math.nan, 4, "all rewards are equal: no baseline says anything"),
    ],
)  # fmt: skip
def test_what_a_share_means(share: float, samples: int, words: str) -> None:
    assert between.meaning(share, samples) == words
