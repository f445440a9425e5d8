"""Compliance at another model's lengths: direct standardisation.

Short bodies comply more often than long ones, so a model that only writes
shorter ones gains in compliance.  Here a model's compliance is computed anew
as if its bodies had the reference's lengths: compliance within each stratum
of length, weighted by the share of that stratum in the reference's
completions (Rothman, Greenland and Lash, Modern Epidemiology, 3rd ed., 2008,
chapter 3).  The reference's own is its plain compliance.

A stratum in which a model wrote nothing says nothing of the model.  It counts
with the reference's compliance, which is no gain and no loss; left out, it
would let a model gain by never writing what it finds hard.

Notation: S strata; tallies are (..., 2, S), completions and how many of them
comply.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stylerl.judge.outcome import Outcome

Floats = NDArray[np.float64]

EDGES = (10, 15, 20, 30, 45, 70, 110)  # tokens, the last of each stratum
LONG = 45  # a body above it is long


def tally(
    rows: pd.DataFrame, prompts: pd.Index, outcome: str = "outcome"
) -> Floats:
    """Completions and compliant ones by prompt and stratum, (P, 2, S).

    Args:
        rows: with `prompt_id`, `tokens` and `outcome`.
        prompts: the ids of the P prompts; other rows do not count.
        outcome: the column that says what complies.
    """
    rows = rows[rows["prompt_id"].isin(prompts)]
    place = prompts.get_indexer(pd.Index(rows["prompt_id"]))
    stratum = np.searchsorted(EDGES, rows["tokens"].to_numpy(), side="left")
    compliant = (rows[outcome] == Outcome.COMPLIANT).to_numpy()
    counts = np.zeros((len(prompts), 2, len(EDGES) + 1))
    np.add.at(counts[:, 0], (place, stratum), 1)
    np.add.at(counts[:, 1], (place, stratum), compliant)
    return counts


def plain(values: Floats) -> Floats:
    """The share that complies, (...), at the model's own lengths."""
    written, compliant = np.moveaxis(values.sum(axis=-1), -1, 0)
    share: Floats = compliant / written
    return share


def standardise(values: Floats, reference: Floats) -> Floats:
    """The share that would comply at the reference's lengths, (...).

    sum over strata of w_s p_s, where w_s is the reference's share of its
    completions in stratum s and p_s the model's compliance there, or the
    reference's where the model wrote nothing.
    """
    written, compliant = values[..., 0, :], values[..., 1, :]
    wanted, theirs = reference[..., 0, :], reference[..., 1, :]
    rate = compliant / np.maximum(written, 1)
    expected = np.where(written > 0, wanted * rate, theirs)
    share: Floats = expected.sum(axis=-1) / wanted.sum(axis=-1)
    return share


def cut(after: Floats, before: Floats) -> Floats:
    """The share by which non-compliance fell, (...).

    1 - (1 - after) / (1 - before), of compliances; negative where there is
    more of it, and NaN where nothing was there to cut.
    """
    rest = 1 - before
    share: Floats = (after - before) / np.where(rest > 0, rest, np.nan)
    return share
