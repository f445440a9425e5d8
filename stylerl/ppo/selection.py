"""Which update to keep: the best held-out one, within a budget of KL.

The reward of training prompts rises long after the policy has begun to pay
for it elsewhere (Gao et al., arXiv 2210.10760, section 3.2: the true reward
has its peak at a certain KL).  So every few updates the policy answers
prompts that it is not trained on, from the same draws each time; with
`ppo.keep: best` the weights of the best answers are kept, with no more KL
than allowed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from stylerl.ppo.rollouts import Rollouts, statistics

MEASURED = {
    "validation/score": "objective/score",
    "validation/kl": "objective/kl",
    "validation/compliance": "judge/compliance",
}


class Best(NamedTuple):
    """The update that is kept so far."""

    update: int
    quality: float
    weights: dict[str, Tensor]  # what training moves, by name


def measure(answers: Rollouts) -> dict[str, float]:
    """What counts of the answers to validation prompts."""
    numbers = statistics(answers, kl_coef=0.0)
    return {
        name: numbers[source]
        for name, source in MEASURED.items()
        if source in numbers
    }


def quality(numbers: Mapping[str, float]) -> float:
    """The observer's compliance; the mean score where none is observed."""
    compliance = numbers.get("validation/compliance")
    return numbers["validation/score"] if compliance is None else compliance


def is_better(
    numbers: Mapping[str, float], best: Best | None, kl_budget: float | None
) -> bool:
    """Whether an update with these numbers takes the place of `best`.

    Among equals the first stays: it has moved less.
    """
    if kl_budget is not None and numbers["validation/kl"] > kl_budget:
        return False
    return best is None or quality(numbers) > best.quality
