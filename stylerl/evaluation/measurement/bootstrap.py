"""Bootstrap intervals for paired differences, resampled by prompt.

Two models answer the same prompts, so what is compared is one number a
prompt: the mean over that prompt's samples under the one model, less that
under the other.  Prompts are the independent draws, therefore whole prompts
are resampled, never single completions (Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, sections 8.3 and 13.3).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stylerl.errors import DataError

Floats = NDArray[np.float64]
LEVEL = 0.95
RESAMPLES = 2000  # the ends of an interval then stand within a tenth of it
ENDS = ("", "_low", "_high")  # of a key
DIGITS = 6  # kept, so that the last bits of a sum change no file


class Interval(NamedTuple):
    """An estimate and the bounds that hold it at the level asked for."""

    estimate: float
    low: float
    high: float


def spread(key: str, interval: Interval) -> dict[str, float]:
    """An interval as `KEY`, `KEY_low` and `KEY_high`, rounded."""
    return {
        key + end: round(value, DIGITS)
        for end, value in zip(ENDS, interval, strict=True)
    }


def paired_intervals(
    differences: Floats, resamples: int, seed: int, level: float = LEVEL
) -> list[Interval]:
    """Percentile interval of each column's mean, one at a time.

    `differences` is (P, M): P prompts, M quantities; every column sees the
    same resampled prompts.

    Raises:
        DataError: a difference is not finite.
    """
    means = _resampled_means(differences, resamples, seed)  # (B, M)
    low, high = percentiles(means, level)
    return _intervals(differences.mean(axis=0), low, high)


def percentiles(draws: Floats, level: float = LEVEL) -> Floats:
    """The bounds (2, ...) that hold the middle of B draws, (B, ...)."""
    tail = (1 - level) / 2
    bounds: Floats = np.quantile(draws, (tail, 1 - tail), axis=0)
    return bounds


def simultaneous_intervals(
    differences: Floats, resamples: int, seed: int
) -> list[Interval]:
    """Intervals that hold all M means at once, for looking at many rules.

    Half width = c x standard error, with c the 0.95 quantile of the
    largest studentised deviation over the columns (the max-t bootstrap;
    Romano and Wolf, Econometrica 73, 2005).  A column that never varies
    gets an interval of no width.

    Raises:
        DataError: a difference is not finite.
    """
    means = _resampled_means(differences, resamples, seed)  # (B, M)
    centre = differences.mean(axis=0)
    error = means.std(axis=0)
    moves = error > 1e-12
    half = np.zeros_like(centre)
    if moves.any():
        deviation = np.abs(means - centre)[:, moves] / error[moves]
        half[moves] = np.quantile(deviation.max(axis=1), LEVEL) * error[moves]
    return _intervals(centre, centre - half, centre + half)


def _resampled_means(differences: Floats, resamples: int, seed: int) -> Floats:
    """Column means of `resamples` draws of P prompts, (B, M)."""
    return resampled_sums(differences, resamples, seed) / len(differences)


def resampled_sums(values: Floats, resamples: int, seed: int) -> Floats:
    """Column sums of (P, M) over `resamples` draws of P prompts, (B, M).

    What is a function of sums, such as a ratio, is computed anew from each
    draw.

    Raises:
        DataError: a value is not finite.
    """
    prompts = len(values)
    if not np.isfinite(values).all():
        raise DataError(
            "an interval needs finite differences; got NaN or infinity: a "
            "model's metrics are broken, look at its completions"
        )
    draws = np.random.default_rng(seed).multinomial(
        prompts, np.full(prompts, 1 / prompts), size=resamples
    )  # (B, P): how often each prompt was drawn
    sums: Floats = draws @ values
    return sums


def _intervals(centre: Floats, low: Floats, high: Floats) -> list[Interval]:
    return [
        Interval(float(c), float(b), float(t))
        for c, b, t in zip(centre, low, high, strict=True)
    ]
