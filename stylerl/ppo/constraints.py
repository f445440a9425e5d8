"""What a policy must keep of its reference, and what that costs it.

`ppo.constraints` names a floor under length, as a share of what the reference
has, and a ceiling on KL, in nats a response.  Short bodies are clean, so that
without the floor a policy writes ever shorter ones.  A completion contributes
where its length stands among those of the reference: 0 below all of them, 1/2
at their median, 1 above all; no line is worth a page.  The reference is
measured once, by rollouts before any update, which are its own.

A length is in tokens, and comments and docstrings have no part in it.  A
completion that was cut at the token limit has none: it counts for nothing,
and gets nothing.  As the longest of all it would be paid for never ending.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stylerl.ppo import prices
from stylerl.ppo.rollouts import Rollouts, SampledRollouts
from stylerl.reward import gaming

LENGTH, KL = "length", "kl"
# The price of length before any update: lengths would fall for as long as it
# has yet to rise.  Where it ends, on validation prompts (decision 35).
FIRST = {LENGTH: prices.Price(1.2, 1.2)}
MEAN_RANK = 0.5  # by length, of the reference's own completions


class Observation(NamedTuple):
    """What one batch of rollouts says of the constraints."""

    bonus: Tensor  # (B,) to be added to the scores
    kl_weight: float  # to be added to beta
    shortfalls: dict[str, float]  # by how much each is missed; < 0 if held
    metrics: dict[str, float]


class Reference(NamedTuple):
    """What the reference has, as its own rollouts show."""

    lengths: list[float]  # of its completions, ascending
    sigma: float  # the scores' deviation, or 1 where that is 0


class Constraints:
    """The constraints of a run, with the price of each."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = dict(limits)
        self.prices = {
            name: FIRST.get(name, prices.Price()) for name in limits
        }
        self.reference: Reference | None = None  # once measured

    def observe(self, batch: Rollouts) -> Observation:
        """Measure a batch: the reference's own, if there was none before."""
        bonus, weight = torch.zeros(len(batch.prompts)), 0.0
        if not self.limits:
            return Observation(bonus, weight, {}, {})
        if self.reference is None:
            self.measure([batch])
        assert (reference := self.reference) is not None
        measured, shortfalls = {}, {}
        if LENGTH in self.limits:
            gain = _ranks(_lengths(batch), reference.lengths) / MEAN_RANK
            counted = _counted(batch)
            measured[LENGTH] = float(gain[counted].mean())
            gain[~counted] = measured[LENGTH]
            shortfalls[LENGTH] = self.limits[LENGTH] - measured[LENGTH]
            bonus = prices.bonus(self.prices[LENGTH], gain, reference.sigma)
        if KL in self.limits:
            limit = self.limits[KL]
            kl = ((batch.logprobs - batch.ref_logprobs) * batch.mask).sum(1)
            measured[KL] = float(kl.mean()) / limit
            shortfalls[KL] = measured[KL] - 1
            weight = prices.kl_weight(self.prices[KL], limit, reference.sigma)
        metrics = {f"constraint/{name}": v for name, v in measured.items()}
        metrics |= {f"price/{name}": p.now for name, p in self.prices.items()}
        return Observation(bonus, weight, shortfalls, metrics)

    def measure(self, batches: Sequence[SampledRollouts]) -> None:
        """Take batches of one size for the reference's own."""
        lengths = torch.cat([_lengths(b)[_counted(b)] for b in batches])
        scores = torch.cat([batch.scores for batch in batches])
        sigma = float(scores.std(correction=0)) or 1.0
        self.reference = Reference(sorted(lengths.tolist()), sigma)

    def move(self, shortfalls: Mapping[str, float]) -> None:
        """Raise the prices of what was missed, and lower the others."""
        self.prices = {
            name: price.next(shortfalls[name])
            for name, price in self.prices.items()
        }

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps as JSON."""
        return {"prices": self.prices, "reference": self.reference}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Undo `state`."""
        self.prices = {
            name: prices.Price(*price)
            for name, price in state["prices"].items()
        }
        has = state["reference"]
        self.reference = None if has is None else Reference(*has)


def _ranks(own: Tensor, reference: Sequence[float]) -> Tensor:
    """Where lengths stand among the reference's, (B,), 0 to 1; ties halve."""
    theirs = torch.tensor(reference)
    shorter = torch.searchsorted(theirs, own)
    no_longer = torch.searchsorted(theirs, own, right=True)
    return (shorter + no_longer) / (2 * len(theirs))


def _counted(batch: SampledRollouts) -> Tensor:
    """Which completions have a length, (B,) bool: those that ended.

    All of them where none did.
    """
    ended = torch.tensor(batch.finished)
    return ended if ended.any() else ~ended


def _lengths(batch: SampledRollouts) -> Tensor:
    """Tokens, less the share of characters that are lines of prose."""
    found = []
    tokens = batch.response_lengths.tolist()
    for count, *texts in zip(tokens, batch.prompts, batch.judged, strict=True):
        prose, every = gaming.prose_characters(*texts)
        found.append(count * (every - prose) / max(1, every))
    return torch.tensor(found)
