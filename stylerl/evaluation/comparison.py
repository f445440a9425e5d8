"""Two policies on the same held-out prompts: the gain of one over the other.

An evaluation's table of completions says in its `attrs` who judged, what the
prompts were drawn from and how it was sampled.  Two tables are compared only
where all of that agrees: a judge that counts less would pass for a gain.
"""

from typing import Any

import pandas as pd

from stylerl.errors import DataError
from stylerl.evaluation.measurement import metrics
from stylerl.evaluation.measurement.bootstrap import RESAMPLES


def compare(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float]:
    """The gain of the second table's policy over the first's, by metric.

    Each with `KEY_low` and `KEY_high`, by paired bootstrap over prompts.

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
        first, second = (t[t["model"] == "ppo"] for t in (before, after))
        sft = before[before["model"] == "sft"]  # at whose lengths both are
        return metrics.compute_gains(second, first, RESAMPLES, 0, sft)
    except KeyError as error:
        raise DataError(
            f"a run's table of completions has no column {error}: another "
            "version of stylerl wrote it; evaluate both anew"
        ) from error


def _prompts(table: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(table["prompt_id"], table["prompt"], strict=True))
