"""Rollouts: completions of a policy, their rewards, and their scores.

They come in two types.  `SampledRollouts` are texts, tokens and rewards;
`Rollouts` are those with the log-probabilities that PPO learns from
(compute.py makes the second from the first).

Notation: B episodes, R tokens of the longest response.  A tensor (B, R) is
zero after the end of each response.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from stylerl.reward.functions import Named, columns
from stylerl.reward.gaming import distinct_ngrams


@dataclass(frozen=True, kw_only=True)
class SampledRollouts:
    """One batch of episodes, as the old policy wrote them, with rewards."""

    prompts: list[str]
    completions: list[str]  # as sampled
    judged: list[str]  # what reward and lengths see of them
    finished: list[bool]  # ended by its last token, eos
    input_ids: list[list[int]]  # prompt and response tokens; never padded
    prompt_lengths: Tensor  # (B,) tokens
    response_lengths: Tensor  # (B,) tokens
    reward_parts: dict[str, Tensor]  # (B,) by name; their sum is the score
    monitored: dict[str, Tensor]  # (B,) logged, never rewarded
    token_rewards: Tensor  # (B, R) the part of the score with its own token

    @property
    def mask(self) -> Tensor:
        """Which places hold a response token, (B, R) bool."""
        at = torch.arange(int(self.response_lengths.max()))
        return at < self.response_lengths[:, None]

    @property
    def scores(self) -> Tensor:
        """The reward of each episode, before shaping, (B,)."""
        return torch.stack(list(self.reward_parts.values())).sum(dim=0)


@dataclass(frozen=True, kw_only=True)
class Rollouts(SampledRollouts):
    """Sampled rollouts, scored by the old policy and by the reference."""

    logprobs: Tensor  # (B, R) of pi_old, nats
    ref_logprobs: Tensor  # (B, R) of pi_ref, nats
    entropy: Tensor  # (B, R) of pi_old, nats
    seconds: dict[str, float] = field(default_factory=dict)  # by phase


def interleave(shares: Sequence[Rollouts]) -> Rollouts:
    """One batch from those of n ranks, each of which had every n-th row."""
    if len(shares) == 1:
        return shares[0]
    count = sum(len(share.input_ids) for share in shares)
    places = [(row % len(shares), row // len(shares)) for row in range(count)]
    width = max(share.token_rewards.shape[1] for share in shares)

    def merge(values: list[Any]) -> Any:
        """The n values of one field as one: a dict, a list or a tensor."""
        if isinstance(values[0], dict):
            return {key: merge([v[key] for v in values]) for key in values[0]}
        if isinstance(values[0], list):
            return [values[share][at] for share, at in places]
        if values[0].dim() == 2:  # each rank's R is its own longest response
            values = [pad(v, (0, width - v.shape[1])) for v in values]
        return torch.stack([values[share][at] for share, at in places])

    names = [column.name for column in fields(shares[0])]
    merged = {
        name: merge([getattr(share, name) for share in shares])
        for name in names
        if name != "seconds"  # those of the first rank
    }
    return replace(shares[0], **merged)


def as_columns(
    given: Sequence[float] | Named, count: int, name: str
) -> dict[str, Tensor]:
    """Named numbers of each episode as tensors (B,), checked.

    A plain sequence of numbers becomes the one part `name`.

    Raises:
        TrainingError: not one finite number for each episode.
    """
    return {
        name: torch.tensor(column)
        for name, column in columns(given, count, name).items()
    }


def metrics_of(rollouts: Rollouts, beta: float) -> dict[str, float]:
    """The metrics of the rollouts; docs/ppo-log.md defines every name."""
    mask = rollouts.mask
    kl = ((rollouts.logprobs - rollouts.ref_logprobs) * mask).sum(dim=1)
    scores = rollouts.scores
    means = {
        "objective/score": scores.mean(),
        "objective/score_std": scores.std(correction=0),
        "objective/kl": kl.mean(),
        "objective/rlhf_reward": (scores - beta * kl).mean(),
        "objective/entropy": rollouts.entropy[mask].mean(),
        "objective/mismatch": mismatch(rollouts),
        "response/length": rollouts.response_lengths.float().mean(),
        "response/eos_rate": torch.tensor(rollouts.finished).float().mean(),
    }
    means |= {f"score/{k}": v.mean() for k, v in rollouts.reward_parts.items()}
    means |= {f"judge/{k}": v.mean() for k, v in rollouts.monitored.items()}
    metrics = {name: float(value) for name, value in means.items()}
    texts = rollouts.completions
    metrics["response/unique"] = len(set(texts)) / len(texts)
    metrics["response/distinct_3"] = distinct_ngrams(texts)
    # The style reward compared with the linter's score, where both exist.
    styles = [
        values
        for name, values in rollouts.reward_parts.items()
        if name.partition("/")[0] == "style"
    ]
    if styles and "score" in rollouts.monitored:
        gap = torch.stack(styles).sum(dim=0) - rollouts.monitored["score"]
        metrics["judge/gap"] = float(gap.mean())
    return metrics


def mismatch(rollouts: Rollouts) -> Tensor:
    """How much less likely the tokens are than tokens of pi_old would be.

    -log pi_old(a) - H(pi_old) has mean 0 for a drawn from pi_old.  This is
    its mean over the tokens, in nats, less 4 standard errors; 0 where there
    is no more.  Below 0 the tokens are more likely.  A policy that is nearly
    sure hides its variance from a small sample, so the entropy, which is
    less than the variance there, bounds it from below.
    """
    mask = rollouts.mask
    entropy = rollouts.entropy[mask]
    excess = -rollouts.logprobs[mask] - entropy
    variance = torch.maximum(excess.var(correction=0), entropy.mean())
    chance = 4 * (variance.clamp(min=0) / len(excess)).sqrt()
    return excess.mean() - excess.mean().clamp(-chance, chance)
