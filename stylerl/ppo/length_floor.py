"""A floor under length, at a price that is learned.

Short bodies are clean, so that without it a policy writes ever shorter ones.
`ppo.length_floor` is the share of the reference's length to keep.  A
completion contributes where its length stands among those of the reference: 0
below all of them, 1/2 at their median, 1 above all, so that one very long
completion cannot make up for many short ones.  The reference here is the
policy before any update; its rollouts measure it once.

A length is in tokens, and comments, docstrings and lines that repeat an
earlier one have no part in it.  A completion that was cut at the token limit
has none: it counts for nothing, and gets nothing.  As the longest of all it
would be paid for never ending.

The problem is: maximise E[s] - beta KL(pi, pi_ref) subject to E[g] >= t,
where s is the score, less what `ppo.credit_weight` adds to charges, g a
completion's rank by length among the reference's, over their mean rank of a
half, and t the share to be kept.  Its Lagrangian is

    E[s] - beta KL + sigma p (E[g] - t).

PPO climbs it in pi; the price p descends it, a little after each update, and
is never negative.  The policy follows a price late, so that descent alone
overshoots again and again; the price therefore also answers to what is missed
right now.  sigma, the reference's deviation of scores, makes a price mean the
same whatever the reward's scale.

Sources
    Lagrangian  Altman, "Constrained Markov decision processes", 1999,
                chapter 3; with learnt multipliers in RLHF: Moskovitz et al.,
                arXiv 2310.04373
    Ascent      Tessler et al., arXiv 1805.11074, equation 6
    Damping     Stooke et al., arXiv 2007.03964: the proportional term of a
                PID Lagrangian
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stylerl.ppo.length import lengths_of
from stylerl.ppo.rollouts import Rollouts, SampledRollouts

RATE = 0.1  # of what is learned, in an update, for a unit of shortfall
DAMPING = 2.0  # of the answer to a unit of shortfall
SHORTFALL = 0.5  # an update counts no more than this
HIGHEST = 5.0  # deviations of the score for one unit
# The price before any update, about where it ends (decision 35): lengths would
# fall for as long as it has yet to rise.
FIRST = 1.0
MEAN_RANK = 0.5  # by length, of the reference's own completions


class Price(NamedTuple):
    """The price of a unit of length, in deviations of the score."""

    learned: float  # the multiplier
    now: float  # with the answer to the last shortfall

    def next(self, shortfall: float) -> "Price":
        """l' = clip(l + RATE e, 0, HIGHEST), p = clip(l' + DAMPING e, 0,
        HIGHEST), of the shortfall e = clip(t - m, +-SHORTFALL): t the
        target, m what was measured."""
        e = min(max(shortfall, -SHORTFALL), SHORTFALL)
        learned = min(max(self.learned + RATE * e, 0.0), HIGHEST)
        return Price(learned, min(max(learned + DAMPING * e, 0.0), HIGHEST))


def bonus(price: Price, gain: Tensor, sigma: float) -> Tensor:
    """sigma p (g - mean g), (B,), of gains g (B,).

    Centred over the batch: a constant changes no gradient, and the scores'
    mean stays what it was.
    """
    return sigma * price.now * (gain - gain.mean())


class Observation(NamedTuple):
    """The floor, measured on one batch of rollouts."""

    bonus: Tensor  # (B,) to be added to the scores
    shortfall: float  # by how much the floor is missed; < 0 if held
    metrics: dict[str, float]


class Reference(NamedTuple):
    """The reference's lengths and scores, from its own rollouts."""

    lengths: list[float]  # of its completions, ascending
    sigma: float  # the scores' deviation, or 1 where that is 0


class LengthFloor:
    """The floor of a run, with its price."""

    def __init__(self, share: float) -> None:
        """Keep this share of the reference's length; 0 asks for nothing."""
        self.share = share
        self.price = Price(FIRST, FIRST)
        self.reference: Reference | None = None  # once measured

    def observe(self, batch: Rollouts) -> Observation:
        """Measure a batch: the reference's own, if there was none before."""
        if not self.share:
            return Observation(torch.zeros(len(batch.prompts)), 0.0, {})
        if self.reference is None:
            self.measure([batch])
        assert (reference := self.reference) is not None
        ranks = _ranks(lengths_of(batch), reference.lengths) / MEAN_RANK
        counted = _counted(batch)
        kept_share = float(ranks[counted].mean())
        ranks[~counted] = kept_share
        return Observation(
            bonus(self.price, ranks, reference.sigma),
            self.share - kept_share,
            {"length/kept": kept_share, "length/price": self.price.now},
        )

    def measure(self, batches: Sequence[SampledRollouts]) -> None:
        """Measure the reference on its own rollouts, batches of one size."""
        lengths = torch.cat([lengths_of(b)[_counted(b)] for b in batches])
        scores = torch.cat([batch.scores for batch in batches])
        sigma = float(scores.std(correction=0)) or 1.0
        self.reference = Reference(sorted(lengths.tolist()), sigma)

    def move(self, shortfall: float) -> None:
        """Raise the price if the floor was missed, else lower it."""
        self.price = self.price.next(shortfall)

    def state(self) -> dict[str, Any]:
        """The state of a checkpoint, as JSON."""
        return {"price": self.price, "reference": self.reference}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self.price = Price(*state["price"])
        has = state["reference"]
        self.reference = None if has is None else Reference(*has)


def _ranks(lengths: Tensor, reference: Sequence[float]) -> Tensor:
    """Where lengths stand among the reference's, (B,), 0 to 1; ties halve."""
    theirs = torch.tensor(reference)
    shorter = torch.searchsorted(theirs, lengths)
    no_longer = torch.searchsorted(theirs, lengths, right=True)
    return (shorter + no_longer) / (2 * len(theirs))


def _counted(batch: SampledRollouts) -> Tensor:
    """Which completions have a length, (B,) bool: those that ended.

    All of them where none did.
    """
    ended = torch.tensor(batch.finished)
    return ended if ended.any() else ~ended
