"""How good a reward model is: ranking, calibration, and by rule.

Pure functions of labels and scores, N texts each, and `measure`, which
applies them to both reward models on held-out labels and minimal pairs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from stylerl.reward.pairs import Preference
from stylerl.reward.scorers import Scorer, score_texts

BINS = 10
DIGITS = 6


class Calibration(NamedTuple):
    """Predicted against observed compliance, by bins of equal width."""

    error: float  # expected calibration error
    table: pd.DataFrame  # predicted, observed, count; filled bins only


class Measured(NamedTuple):
    """metrics/reward.json and metrics/reward_calibration.csv."""

    metrics: dict[str, Any]
    calibration: pd.DataFrame


def measure(
    classifier: Scorer,
    pairwise: Scorer,
    labels: pd.DataFrame,
    pairs: Sequence[Preference],
    batch_size: int,
) -> Measured:
    """Both models on held-out rows of labels.parquet and minimal pairs."""
    metrics: dict[str, Any] = {
        "held_out": {
            "labels": len(labels),
            "compliance": float(labels["compliant"].mean()),
            "pairs": len(pairs),
        }
    }
    by_rule: dict[str, dict[str, float]] = {}
    for name, model in (("classifier", classifier), ("pairwise", pairwise)):
        scores = score_texts(*model, labels["text"].tolist(), batch_size)
        better = score_texts(*model, [p.chosen for p in pairs], batch_size)
        worse = score_texts(*model, [p.rejected for p in pairs], batch_size)
        metrics[name] = {
            "auroc": auroc(labels["compliant"], scores),
            "score_correlation": rank_correlation(labels["score"], scores),
            "pairs_right": float(_won(better, worse).mean()),
            "length_bias": length_bias(
                labels["compliant"], scores, labels["text"].map(len)
            ),
        }
        if name == "classifier":
            found = calibration(labels["compliant"], scores)
            metrics[name]["accuracy"] = accuracy(labels["compliant"], scores)
            metrics[name]["calibration_error"] = found.error
        rules = ranked_right([p.rule for p in pairs], better, worse)
        for rule, (count, right) in rules.items():
            by_rule.setdefault(rule, {"pairs": count})[name] = right
    metrics["rules"] = by_rule
    return Measured(_rounded(metrics), found.table.round(DIGITS))


def accuracy(compliant: ArrayLike, probability: ArrayLike) -> float:
    """Share of texts on the right side of one half."""
    guess = np.asarray(probability) >= 0.5
    return float(np.mean(guess == np.asarray(compliant, dtype=bool)))


def auroc(compliant: ArrayLike, scores: ArrayLike) -> float | None:
    """Chance that a compliant text outscores another; ties count half.

    The Mann-Whitney statistic from mid-ranks (Fawcett 2006, section 7).
    None where all texts are of one kind.
    """
    positive = np.asarray(compliant, dtype=bool)
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return None
    ranks = _ranks(scores)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def calibration(compliant: ArrayLike, probability: ArrayLike) -> Calibration:
    """Reliability by bins of predicted probability.

    Error = sum over bins of (bin's share of texts) x |observed - predicted|
    (Guo et al., arXiv 1706.04599, equation 3).
    """
    frame = pd.DataFrame(
        {
            "predicted": np.asarray(probability, dtype=float),
            "observed": np.asarray(compliant, dtype=float),
        }
    )
    bins = np.minimum((frame["predicted"] * BINS).astype(int), BINS - 1)
    groups = frame.groupby(bins)
    table = groups.mean()
    table["count"] = groups.size()
    gaps = (table["observed"] - table["predicted"]).abs()
    error = float((gaps * table["count"]).sum() / len(frame))
    return Calibration(error, table.reset_index(drop=True))


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's rho; None where one side is constant."""
    a, b = _ranks(first), _ranks(second)
    if a.size < 2 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def length_bias(
    compliant: ArrayLike, scores: ArrayLike, lengths: ArrayLike
) -> dict[str, float | None]:
    """Rank correlation of score and length among texts of equal label.

    0 is unbiased; below 0, shorter texts score higher for their shortness.
    """
    positive = np.asarray(compliant, dtype=bool)
    values, sizes = np.asarray(scores), np.asarray(lengths)
    return {
        "compliant": rank_correlation(values[positive], sizes[positive]),
        "violating": rank_correlation(values[~positive], sizes[~positive]),
    }


def ranked_right(
    rules: list[str], better: ArrayLike, worse: ArrayLike
) -> dict[str, tuple[int, float]]:
    """For each rule: its number of pairs, and the share ranked right.

    A tie counts half: a model that cannot see a rule gets 0.5.
    """
    groups = pd.Series(_won(better, worse)).groupby(rules)
    return {
        str(rule): (len(group), float(group.mean())) for rule, group in groups
    }


def _won(better: ArrayLike, worse: ArrayLike) -> NDArray[np.float64]:
    """1 where the better text has the higher score, 0.5 for a tie."""
    margin = np.asarray(better) - np.asarray(worse)
    return (np.sign(margin) + 1) / 2


def _rounded(tree: Any) -> Any:
    """The tree with its floats rounded, so that last bits change no file."""
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    return round(tree, DIGITS) if isinstance(tree, float) else tree


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1, ties sharing their mean."""
    series = pd.Series(np.asarray(values, dtype=float))
    return np.asarray(series.rank(), dtype=np.float64)
