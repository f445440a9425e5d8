"""What a policy must keep of its reference, and what that costs it.

`ppo.constraints` names floors and a ceiling on statements, as shares of what
the reference has, and a ceiling on KL, in nats a response.  The reference is
measured once, by rollouts before any update, which are its own.  What a
completion contributes:

    substance    what its body says, in pairs (reward/substance.py), up to
                 twice the reference's mean: no line is worth a page
    length       where its length stands among the reference's completions:
                 0 below all of them, 1/2 at their median, 1 above all
    long_bodies  1 if it is as long as the upper quartile of the reference's
                 completions, or longer
    parses       1 if it parses, as Python
    distinct     the share of its 3-grams of lexemes that no other completion
                 of the batch has
    statements   those that say something new; this is a ceiling, on the mean
                 of what parses: to parse more often is not to write more

A length is in tokens, and comments and docstrings have no part in it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stylerl.ppo import prices
from stylerl.ppo.rollouts import Rollouts
from stylerl.reward import gaming, substance

KL = "kl"
CEILINGS = ("statements",)  # beside KL's; all others are floors
# Prices before any update; all others are 0.  What is short is clean, so
# that lengths would fall for as long as their price has yet to rise; and what
# has substance and length has statements.
FIRST = {
    "length": prices.Price(0.8, 0.8),
    "statements": prices.Price(0.3, 0.3),
}
LONG = 0.75  # quantile of the reference's lengths: a long body's
PAGE = 2.0  # times the reference's mean size; no more counts


class Observation(NamedTuple):
    """What one batch of rollouts says of the constraints."""

    bonus: Tensor  # (B,) to be added to the scores
    kl_weight: float  # to be added to beta
    shortfalls: dict[str, float]  # by how much each is missed; < 0 if held
    metrics: dict[str, float]


class Reference(NamedTuple):
    """What the reference has, as its own rollouts show."""

    lengths: list[float]  # of its completions, ascending
    page: float  # the size above which no more substance counts
    sigma: float  # the scores' deviation, or 1 where that is 0
    means: dict[str, float]  # of each contribution


class Constraints:
    """The constraints of a run, with the price of each."""

    def __init__(
        self,
        limits: Mapping[str, float],
        known: substance.Known = substance.anything,
    ) -> None:
        """`known` gives the names of the module around a prompt."""
        self.limits, self.known = dict(limits), known
        self.prices = {
            name: FIRST.get(name, prices.Price()) for name in limits
        }
        self.reference: Reference | None = None  # once measured

    def observe(self, batch: Rollouts) -> Observation:
        """Measure a batch: the reference's own, if there was none before."""
        if not self.limits:
            return Observation(torch.zeros(len(batch.prompts)), 0.0, {}, {})
        if self.reference is None:
            self.measure([batch])
        assert (has := self.reference) is not None
        contributions = _contributions(batch, self._found(batch), has)
        gains = {
            name: values / (has.means[name] or 1.0)
            for name, values in contributions.items()
            if name in self.limits
        }
        held = {name: _mean(gain) for name, gain in gains.items()}
        # What the reference does not have at all has no share.
        shortfalls = {
            name: _sign(name) * (self.limits[name] - share)
            if has.means[name]
            else 0.0
            for name, share in held.items()
        }
        weight = 0.0
        if KL in self.limits:
            limit = self.limits[KL]
            kl = ((batch.logprobs - batch.ref_logprobs) * batch.mask).sum(1)
            held[KL] = float(kl.mean()) / limit
            shortfalls[KL] = held[KL] - 1
            weight = prices.kl_weight(self.prices[KL], limit, has.sigma)
        metrics = {f"constraint/{name}": each for name, each in held.items()}
        metrics |= {f"price/{name}": p.now for name, p in self.prices.items()}
        bonus = torch.zeros(len(batch.prompts))
        if gains:
            bonus = prices.bonus(
                self.prices,
                {
                    name: _sign(name) * gain.nan_to_num(held[name])
                    for name, gain in gains.items()
                },
                has.sigma,
            )
        return Observation(bonus, weight, shortfalls, metrics)

    def measure(self, batches: Sequence[Rollouts]) -> None:
        """Take batches of one size for the reference's own."""
        found = [self._found(batch) for batch in batches]
        lengths = torch.cat([_lengths(batch) for batch in batches])
        scores = torch.cat([batch.scores for batch in batches])
        has = Reference(
            lengths=sorted(lengths.tolist()),
            page=PAGE * float(_sizes(sum(found, [])).mean()),
            sigma=float(scores.std(correction=0)) or 1.0,
            means={},
        )
        measured = [
            _contributions(batch, own, has)
            for batch, own in zip(batches, found, strict=True)
        ]
        means = {
            name: _mean(torch.stack([each[name] for each in measured]))
            for name in measured[0]
        }
        self.reference = has._replace(means=means)

    def _found(self, batch: Rollouts) -> list[substance.Substance]:
        """What each completion says, where the names of its file are known."""
        pairs = zip(batch.prompts, batch.judged, strict=True)
        return [
            substance.measure(prompt, text, self.known(prompt))
            for prompt, text in pairs
        ]

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


def _contributions(
    batch: Rollouts, found: list[substance.Substance], has: Reference
) -> dict[str, Tensor]:
    """What each completion contributes to each constraint, (B,) by name.

    NaN where it has no say; then it is paid what the batch is on average.
    """
    own, reference = _lengths(batch), torch.tensor(has.lengths)
    shorter = torch.searchsorted(reference, own)
    no_longer = torch.searchsorted(reference, own, right=True)
    return {
        "substance": _sizes(found).clamp(max=has.page),
        "length": (shorter + no_longer) / (2 * len(reference)),
        "long_bodies": (own >= reference.quantile(LONG)).float(),
        "parses": torch.tensor([float(each.parsed) for each in found]),
        "distinct": torch.tensor(gaming.unshared_ngrams(batch.judged)),
        "statements": torch.tensor(
            [each.statements if each.parsed else math.nan for each in found],
            dtype=torch.float32,
        ),
    }


def _mean(contributions: Tensor) -> float:
    """Of those that have a say; 0 where none has."""
    return float(contributions.nanmean().nan_to_num())


def _sign(name: str) -> int:
    """1 for what must not fall, and -1 for what must not rise."""
    return -1 if name in CEILINGS else 1


def _lengths(batch: Rollouts) -> Tensor:
    """Tokens, less the share of characters that are lines of prose."""
    found = []
    tokens = batch.response_lengths.tolist()
    for count, *texts in zip(tokens, batch.prompts, batch.judged, strict=True):
        prose, every = gaming.prose_characters(*texts)
        found.append(count * (every - prose) / max(1, every))
    return torch.tensor(found)


def _sizes(found: list[substance.Substance]) -> Tensor:
    return torch.tensor([float(each.size) for each in found])
