"""Prices of constraints: dual ascent, as pure functions.

The problem is: maximise E[s] - beta KL(pi, pi_ref) subject to E[g] >= t and
to KL / d <= 1, where s is the score, less what `ppo.credit_weight` adds to
charges, g a completion's rank by length among the reference's, over their
mean rank of a half, and t the share of that to be kept.  Its Lagrangian is

    E[s] - beta KL + sigma (p (E[g] - t) - p_KL (KL / d - 1)).

PPO climbs it in pi; each price p descends it, a little after each update,
and is never negative.  The policy follows a price late, so that descent
alone overshoots again and again; a price therefore also answers to what is
missed right now.  sigma, the reference's deviation of scores, makes a price
mean the same whatever the reward's scale.

Sources
    Lagrangian  Altman, "Constrained Markov decision processes", 1999,
                chapter 3; with learnt multipliers in RLHF: Moskovitz et al.,
                arXiv 2310.04373
    Ascent      Tessler et al., arXiv 1805.11074, equation 6
    Damping     Stooke et al., arXiv 2007.03964: the proportional term of a
                PID Lagrangian
"""

from typing import NamedTuple

from torch import Tensor

RATE = 0.1  # of what is learned, in an update, for a unit of shortfall
DAMPING = 1.0  # of the answer to a unit of shortfall
SHORTFALL = 0.5  # an update counts no more than this
HIGHEST = 5.0  # deviations of the score for one unit


class Price(NamedTuple):
    """What a unit of a constraint costs, in deviations of the score."""

    learned: float = 0.0  # the multiplier
    now: float = 0.0  # with the answer to the last shortfall

    def next(self, shortfall: float) -> "Price":
        """l' = clip(l + RATE e, 0, HIGHEST), p = clip(l' + DAMPING e, 0,
        HIGHEST), of the shortfall e = clip(t - m, +-SHORTFALL): t the
        target, m what was measured; of KL, KL / d - 1."""
        e = min(max(shortfall, -SHORTFALL), SHORTFALL)
        learned = min(max(self.learned + RATE * e, 0.0), HIGHEST)
        return Price(learned, min(max(learned + DAMPING * e, 0.0), HIGHEST))


def bonus(price: Price, gain: Tensor, sigma: float) -> Tensor:
    """sigma p (g - mean g), (B,), of gains g (B,).

    Centred over the batch: a constant changes no gradient, and the scores'
    mean stays what it was.
    """
    return sigma * price.now * (gain - gain.mean())


def kl_weight(price: Price, limit: float, sigma: float) -> float:
    """sigma p / d: what the price of KL adds to beta."""
    return sigma * price.now / limit
