"""How good a reward model is: how it ranks texts, and pairs by rule.

Pure functions of labels and scores, N texts each, and `measure`, which
applies them to both reward models on held-out labels and minimal pairs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from stylerl.reward.scorers import Scorer, score_texts
from stylerl.reward_models.dataset import RewardDataset
from stylerl.reward_models.pairs import UNPARSABLE, Preference

DIGITS = 6


def measure(
    classifier: Scorer,
    pairwise: Scorer,
    eval_set: RewardDataset,
    batch_size: int,
) -> dict[str, Any]:
    """metrics/reward.json of both models; docs/metrics.md defines its keys."""
    # 1. The pairs, and which of them do not parse.
    labels = eval_set.labels
    pairs = pd.DataFrame(eval_set.pairs, columns=Preference._fields)
    broken = pairs["rule"] == UNPARSABLE
    # 2. How much there is to measure on.
    metrics: dict[str, Any] = {
        "held_out": {
            "labels": len(labels),
            "compliance": float(labels["compliant"].mean()),
            "pairs": int((~broken).sum()),
            "broken": int(broken.sum()),
        }
    }
    # 3. Each model, on labels and on pairs.
    for name, model in (("classifier", classifier), ("pairwise", pairwise)):
        texts = labels["text"], pairs["chosen"], pairs["rejected"]
        scores, better, worse = (
            score_texts(*model, column.tolist(), batch_size)
            for column in texts
        )
        pairs[name] = won(better, worse)
        metrics[name] = {
            "auroc": auroc(labels["compliant"], scores),
            "pairs_right": _mean(pairs.loc[~broken, name]),
            "broken_right": _mean(pairs.loc[broken, name]),
        }
    metrics["rules"] = by_rule(pairs, ["classifier", "pairwise"])
    rounded: dict[str, Any] = _rounded(metrics)
    return rounded


def _mean(values: "pd.Series[float]") -> float | None:
    """The mean; None of nothing."""
    return float(values.mean()) if len(values) else None


def auroc(compliant: ArrayLike, scores: ArrayLike) -> float | None:
    """Chance that a compliant text outscores another; ties count half.

    The Mann-Whitney statistic from mid-ranks (Fawcett 2006, section 7).
    None where all texts are of one kind.
    """
    positive = np.asarray(compliant, dtype=bool)
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return None
    ranks = pd.Series(np.asarray(scores)).rank()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def by_rule(
    pairs: pd.DataFrame, models: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """For each rule: its number of pairs, and each model's share right.

    `pairs` has a column `rule`, and a column of `won` for each model.
    """
    return {
        str(rule): {
            "pairs": len(group),
            **{name: float(group[name].mean()) for name in models},
        }
        for rule, group in pairs.groupby("rule")
    }


def won(better: ArrayLike, worse: ArrayLike) -> NDArray[np.float64]:
    """1 where the better text has the higher score, 0.5 for a tie.

    So a model that cannot see a rule gets 0.5.
    """
    margin = np.asarray(better) - np.asarray(worse)
    return (np.sign(margin) + 1) / 2


def _rounded(tree: Any) -> Any:
    """The tree with its floats rounded, so that last bits change no file."""
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    return round(tree, DIGITS) if isinstance(tree, float) else tree
