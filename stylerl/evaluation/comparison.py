"""Two runs on the same held-out prompts: the gain of one over the other.

An evaluation's table of completions says in its `attrs` who judged, what the
prompts were drawn from and how it was sampled.  Two tables are compared only
where all of that agrees: a judge that counts less would pass for a gain.
"""

from typing import Any, NamedTuple

import pandas as pd

from stylerl.errors import DataError
from stylerl.evaluation.measurement import metrics
from stylerl.evaluation.measurement.bootstrap import RESAMPLES

MODELS = ("sft", "ppo")


class Difference(NamedTuple):
    """One model in two runs, measured on the same prompts."""

    model: str
    before: dict[str, float]  # of the first run, by metric
    after: dict[str, float]  # of the second
    gain: dict[str, float]  # second less first: KEY, KEY_low, KEY_high


def compare(
    before: pd.DataFrame,
    after: pd.DataFrame,
    resamples: int = RESAMPLES,
) -> list[Difference]:
    """The SFT models and the policies of two runs, second less first.

    Args:
        before: the first run's table of completions.
        after: the second run's.
        resamples: of the paired bootstrap by prompt.

    Raises:
        DataError: the tables have not the same judge, data and sampling;
            each difference, and what to do about it. Or a table is of
            another version, and a column is missing.
    """
    keys: Any = before.attrs.keys() | after.attrs.keys()
    differing = [
        f"{key}, {before.attrs.get(key)} and {after.attrs.get(key)}"
        for key in sorted(keys)
        if before.attrs.get(key) != after.attrs.get(key)
    ]
    if not differing and _prompts(before) != _prompts(after):
        differing = ["the prompts"]
    if differing:
        raise DataError(
            "two runs are compared on the same prompts, by the same judge; "
            f"these differ in {'; '.join(differing)}: evaluate both alike"
        )
    try:
        return _differences(before, after, resamples)
    except KeyError as error:
        raise DataError(
            f"a run's table of completions has no column {error}: another "
            "version of stylerl wrote it; evaluate both anew"
        ) from error


def _differences(
    before: pd.DataFrame, after: pd.DataFrame, resamples: int
) -> list[Difference]:
    sft = _of(before, MODELS[0])  # whose lengths both are brought to
    return [
        Difference(
            model,
            metrics.compute_metrics(first, reference=sft),
            metrics.compute_metrics(second, reference=sft),
            metrics.compute_gains(second, first, resamples, 0, sft),
        )
        for model in MODELS
        for first, second in [(_of(before, model), _of(after, model))]
    ]


def _prompts(table: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(table["prompt_id"], table["prompt"], strict=True))


def _of(table: pd.DataFrame, model: str) -> pd.DataFrame:
    return table[table["model"] == model]
