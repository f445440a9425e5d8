"""Rollouts: what a policy wrote, what it was given for it, and their numbers.

Notation: B episodes, R tokens of the longest response.  A tensor (B, R) is
zero behind the end of each response.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from stylerl.reward.functions import Named, RewardFunction, columns
from stylerl.reward.gaming import distinct_ngrams

Reward = RewardFunction
Observer = Callable[[list[str], list[str], list[bool]], Named]


EMPTY = torch.empty(0, 0)


@dataclass(frozen=True)
class Rollouts:
    """One batch of episodes, as sampled and scored by the old policy."""

    prompts: list[str]
    completions: list[str]  # as sampled
    finished: list[bool]  # ended by its last token: eos, or a stop string's
    rows: list[list[int]]  # prompt and response tokens; never padded
    starts: Tensor  # (B,) tokens of the prompt
    lengths: Tensor  # (B,) tokens of the response
    parts: dict[str, Tensor]  # (B,) the reward by named part; sums to it
    observed: dict[str, Tensor]  # (B,) watched, and not rewarded
    charges: Tensor = EMPTY  # (B, R) of the reward, what is a token's own
    logprobs: Tensor = EMPTY  # (B, R) of pi_old, nats
    ref_logprobs: Tensor = EMPTY  # (B, R) of pi_ref, nats
    entropy: Tensor = EMPTY  # (B, R) of pi_old, nats
    values: Tensor = EMPTY  # (B, R)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def mask(self) -> Tensor:
        """Where a response token stands, (B, R) bool."""
        at = torch.arange(int(self.lengths.max()))
        return at < self.lengths[:, None]

    @property
    def scores(self) -> Tensor:
        """The reward as the function gave it, (B,)."""
        return torch.stack(list(self.parts.values())).sum(dim=0)


class MicroBatch(NamedTuple):
    """A few episodes of like length, for one forward pass."""

    ids: Tensor  # (b, T) right-padded
    starts: Tensor  # (b,)
    lengths: Tensor  # (b,)


def interleave(shares: Sequence[Rollouts]) -> Rollouts:
    """One batch from those of n processes, whose rows were every n-th."""
    if len(shares) == 1:
        return shares[0]
    count = sum(len(share.rows) for share in shares)
    places = [(row % len(shares), row // len(shares)) for row in range(count)]
    width = max(share.logprobs.shape[1] for share in shares)

    def merge(values: list[Any]) -> Any:
        """The n values of a field, whatever it is, as one."""
        if isinstance(values[0], dict):
            return {key: merge([v[key] for v in values]) for key in values[0]}
        if isinstance(values[0], list):
            return [values[share][at] for share, at in places]
        if values[0].dim() == 2:
            values = [pad(v, (0, width - v.shape[1])) for v in values]
        return torch.stack([values[share][at] for share, at in places])

    names = [each.name for each in fields(Rollouts) if each.name != "seconds"]
    merged = {
        name: merge([getattr(s, name) for s in shares]) for name in names
    }
    return Rollouts(**merged, seconds=shares[0].seconds)


def call_reward(
    reward: Reward, prompts: list[str], completions: list[str]
) -> dict[str, Tensor]:
    """Ask for the rewards, as named parts of (B,) each.

    A plain sequence of numbers becomes the one part `reward`.

    Raises:
        TrainingError: not one finite number an episode.
    """
    return as_columns(reward(prompts, completions), len(prompts))


def as_columns(
    given: Sequence[float] | Named, count: int
) -> dict[str, Tensor]:
    """Named sequences as tensors (B,), checked.

    Raises:
        TrainingError: not one finite number an episode.
    """
    return {
        name: torch.tensor(column)
        for name, column in columns(given, count).items()
    }


def statistics(rollouts: Rollouts, kl_coef: float) -> dict[str, float]:
    """What the rollouts show; every name is defined in docs/ppo-log.md."""
    mask = rollouts.mask
    kl = ((rollouts.logprobs - rollouts.ref_logprobs) * mask).sum(dim=1)
    scores = rollouts.scores
    found = {
        "objective/score": scores.mean(),
        "objective/score_std": scores.std(correction=0),
        "objective/kl": kl.mean(),
        "objective/non_score_reward": -kl_coef * kl.mean(),
        "objective/rlhf_reward": (scores - kl_coef * kl).mean(),
        "objective/entropy": rollouts.entropy[mask].mean(),
        "response/length": rollouts.lengths.float().mean(),
        "response/eos_rate": torch.tensor(rollouts.finished).float().mean(),
    }
    found |= {f"score/{k}": v.mean() for k, v in rollouts.parts.items()}
    found |= {f"judge/{k}": v.mean() for k, v in rollouts.observed.items()}
    numbers = {name: float(value) for name, value in found.items()}
    texts = rollouts.completions
    numbers["response/unique"] = len(set(texts)) / len(texts)
    numbers["response/distinct_3"] = distinct_ngrams(texts)
    return numbers | _agreement(rollouts)


def _agreement(rollouts: Rollouts) -> dict[str, float]:
    """The style reward beside the linter's score, where both are.

    `gap` is the difference of their means; `rank_correlation` is Spearman's,
    0 where either is constant.
    """
    styles = [v for k, v in rollouts.parts.items() if k.startswith("style")]
    linter = rollouts.observed.get("score")
    if not styles or linter is None:
        return {}
    learned = torch.stack(styles).sum(dim=0)
    return {
        "judge/gap": float((learned - linter).mean()),
        "judge/rank_correlation": rank_correlation(
            learned.numpy(), linter.numpy()
        ),
    }


def rank_correlation(
    a: np.ndarray[tuple[int], np.dtype[np.float32]],
    b: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> float:
    """Spearman's rho: Pearson's correlation of average ranks."""
    ranks = []
    for values in (a, b):
        _, group, count = np.unique(
            values, return_inverse=True, return_counts=True
        )
        last = np.cumsum(count)
        rank = (last - (count - 1) / 2)[group]
        ranks.append(rank - rank.mean())
    size = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float((ranks[0] * ranks[1]).sum() / size) if size > 0 else 0.0
