"""Which update to keep: the best held-out one, within a budget of KL.

The reward of training prompts continues to rise after the true quality has
begun to fall (Gao et al., arXiv 2210.10760, section 3.2: the true reward has
its peak at a certain KL).  So every few updates the policy completes prompts
that it is not trained on, with the same random draws each time; with
`ppo.keep: best` the weights of the best update are kept, among those whose
KL is within the budget.
"""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from stylerl.ppo.rollouts import Rollouts, metrics_of

MEASURED = {
    "validation/score": "objective/score",
    "validation/kl": "objective/kl",
    "validation/compliance": "judge/compliance",
}


class Best(NamedTuple):
    """The best update so far."""

    update: int
    quality: float
    weights: dict[str, Tensor]  # what training moves, by name


def measure(validated: Rollouts) -> dict[str, float]:
    """The metrics of completions of validation prompts."""
    metrics = metrics_of(validated, beta=0.0)
    return {
        name: metrics[source]
        for name, source in MEASURED.items()
        if source in metrics
    }


def quality(metrics: Mapping[str, float]) -> float:
    """The monitored compliance; the mean score where it is not monitored."""
    compliance = metrics.get("validation/compliance")
    return metrics["validation/score"] if compliance is None else compliance


def is_better(
    metrics: Mapping[str, float], best: Best | None, kl_budget: float | None
) -> bool:
    """Whether an update with these metrics replaces `best`.

    Of equals the first is kept: it is nearer to the reference.
    """
    if kl_budget is not None and metrics["validation/kl"] > kl_budget:
        return False
    return best is None or quality(metrics) > best.quality
