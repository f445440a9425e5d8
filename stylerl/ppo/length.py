"""Advantages that keep lengths.

Short bodies are clean, so that a policy which is paid for compliance writes
ever shorter ones.  Here it climbs E[R] while E[l] stays, l being log(1 +
length) of a response.  The gradient of the Lagrangian E[R] - b E[l] has the
advantages

    A_{i,t} - b L_i,    b = sum_{i,t} A'_{i,t} L_i / sum_{i,t} L_i^2

with L_i = l_i less its mean over the answers to the prompt that ended, the
advantage of length itself.  Were A' A, the two would be orthogonal over the
tokens of the batch, and a step of the natural gradient, which moves E[l] at
the rate E[sum_t A_t L], would leave it as it is: the multiplier b, the price
of length, is computed and not learned.  But A' discounts charges half as much
as A (`ppo.gae_lambda`), since with the b of A lengths fall, and with that of
charges which are not discounted they rise (decision 35).

Noise moves lengths too.  What it has moved comes back by a second term:

    A_{i,t} - (b + 4 s d) L_i

s is the deviation of A, and d the mean of l less that of the policy before
any update, whose own rollouts measure it once.  A batch has few prompts, and
a prompt says much of its answers' lengths, so d is smoothed over updates:
two fifths of the newest batch's, and the rest of the d before.

A length is in tokens, and comments, docstrings and lines that repeat an
earlier one have no part in it.  A completion that was cut at the token limit
has none: it is in no mean, and its L is 0.

Sources
    Constraint  Altman, "Constrained Markov decision processes", 1999,
                chapter 3; the multiplier of one linear constraint in closed
                form: Achiam et al., arXiv 1705.10528, section 6.1
    Motion      Kakade, "A natural policy gradient", NeurIPS 2001
    Return      Stooke et al., arXiv 2007.03964: the proportional term of a
                PID Lagrangian
    Length      taken out by regression: Dubois et al., arXiv 2404.04475, of
                an evaluation, and Chen et al., arXiv 2402.07319, of a reward
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from stylerl.ppo import formulas
from stylerl.reward import gaming

ANSWER = 4.0  # to a drift of 1, in deviations of the advantages
NEWEST = 0.4  # the share of the newest batch's in the drift


def without_length(
    advantages: Tensor,
    priced: Tensor,
    mask: Tensor,
    longer: Tensor,
    drift: float,
) -> Tensor:
    """A - (b + 4 s d) L, (B, R); see the module's text.

    Args:
        advantages: A, (B, R), 0 after each response.
        priced: A', (B, R), the same of charges that are discounted less.
        mask: (B, R) bool, the tokens of the responses.
        longer: L, (B,), as of `advantage_of`.
        drift: d, of the mean of l, smoothed.
    """
    of_tokens = mask * longer[:, None]
    b = (priced * of_tokens).sum() / (of_tokens**2).sum().clamp(min=1e-6)
    back = ANSWER * formulas.deviation(advantages, mask) * drift
    return advantages - (b + back) * of_tokens


def advantage_of(logs: Tensor, ended: Tensor, size: int) -> Tensor:
    """L, (B,): l less its mean over the `size` answers to a prompt.

    Args:
        logs: l, (B,).
        ended: (B,) bool, those that were not cut.
        size: of a group of neighbours.
    """
    groups = ended.view(-1, size)
    known = logs.view(-1, size) * groups
    means = known.sum(dim=1) / groups.sum(dim=1).clamp(min=1)
    return (known - groups * means[:, None]).flatten()


def log_lengths(
    prompts: Sequence[str], judged: Sequence[str], tokens: Tensor
) -> Tensor:
    """l, (B,): of tokens, (B,), times the share of characters in lines of new
    code."""
    lengths = []
    for count, *texts in zip(tokens.tolist(), prompts, judged, strict=True):
        code, every = gaming.code_characters(*texts)
        lengths.append(count * code / max(1, every))
    return torch.tensor(lengths).log1p()
