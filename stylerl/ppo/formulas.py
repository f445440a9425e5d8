"""The mathematics of PPO: pure functions on tensors, each with its source.

Notation
    B episodes of a batch, R tokens of the longest response, N response
    tokens laid end to end.  s_t: the prompt and the response before token
    t; a_t: token t.  pi: the policy being trained; pi_old: the policy that
    sampled; pi_ref: the frozen reference.  r_t = pi(a_t|s_t) /
    pi_old(a_t|s_t): the ratio.  A_t: advantage.  beta: weight of the KL
    penalty.  All logarithms are natural, all probabilities those of
    softmax(logits / temperature).

Sources
    PPO      Schulman et al., arXiv 1707.06347
    GAE      Schulman et al., arXiv 1506.02438
    Ziegler  Ziegler et al., arXiv 1909.08593
    RLOO     Ahmadian et al., arXiv 2402.14740; Kool et al., ICLR 2019
             workshop, "Buy 4 REINFORCE samples, get a baseline for free!"
    KL       Schulman, joschu.net/blog/kl-approx.html
"""

import math

import torch
from torch import Tensor

WARMUP = 0.05  # share of the updates in which the learning rate rises
LOG_RATIO_LIMIT = 20.0  # e^20 is finite in fp32, and out of any clip range


def kl_k1(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """log pi - log pi_ref: unbiased for KL(pi, pi_ref) (KL, k1)."""
    return logprobs - ref_logprobs


def kl_k3(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """x - 1 - log x, x = pi_ref / pi: unbiased, never negative (KL, k3)."""
    log_x = ref_logprobs - logprobs
    return log_x.exp() - 1 - log_x


def penalised_rewards(
    scores: Tensor,
    token_rewards: Tensor,
    kl: Tensor,
    lengths: Tensor,
    beta: float,
) -> Tensor:
    """-beta KL_t, and the score on the last action (Ziegler, eq. 2).

    `token_rewards` are the part of each score that belongs to tokens of its
    own.  The last action gets the rest, so that a response's rewards have
    the same sum with them and without.  Scores and lengths are (B,), token
    rewards and KL (B, R) and 0 after each response.
    """
    last = (lengths - 1)[:, None]
    rest = (scores - token_rewards.sum(dim=1))[:, None]
    return (token_rewards - beta * kl).scatter_add(1, last, rest)


def returns_to_go(
    rewards: Tensor,
    located: Tensor,
    mask: Tensor,
    gae_lambda: float,
) -> Tensor:
    """What is still to come at each token, (B, R), 0 after each response.

    G_{i,t} = the sum over s >= t of r_{i,s} - c_{i,s} + lambda^(s-t) c_{i,s}.
    r: rewards, (B, R), of which `located`, c, is the part that single tokens
    wrote.  What was written fifty tokens before a violation hardly led to it:
    lambda < 1 drops the noise of such sums, at the price of a bias (GAE,
    section 4, with a value of 0).
    """
    whole = discounted_sums(rewards - located, 1.0)
    return (whole + discounted_sums(located, gae_lambda)) * mask


def group_advantages(
    returns: Tensor, outcomes: Tensor, mask: Tensor, size: int
) -> Tensor:
    """G_{i,t} - mean over the siblings j of i of G_{j,t}, (B, R) (RLOO).

    G: returns to go, (B, R).  A sibling that has ended by t counts with its
    outcome, (B,).  Siblings are `size` neighbours; what they did depends on
    nothing that episode i did, so that taking it off biases nothing.
    """
    sums = torch.where(mask, returns, outcomes[:, None])
    groups = sums.view(-1, size, sums.shape[1])
    others = (groups.sum(dim=1, keepdim=True) - groups) / (size - 1)
    return (groups - others).view_as(sums) * mask


def discounted_sums(rewards: Tensor, factor: float) -> Tensor:
    """The sum of factor^k reward_{t+k} over k, (B, R) each."""
    sums = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[:, 0])
    for t in range(rewards.shape[1] - 1, -1, -1):
        following = rewards[:, t] + factor * following
        sums[:, t] = following
    return sums


def deviation(x: Tensor, mask: Tensor) -> Tensor:
    """The standard deviation over the mask, never 0, a scalar.

    The variance has Bessel's correction.
    """
    inside = x[mask]
    variance = ((inside - inside.mean()) ** 2).sum() / max(len(inside) - 1, 1)
    return torch.sqrt(variance + 1e-8)


def ratio_of(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """pi / pi_old, with its logarithm kept within +-20."""
    difference = logprobs - old_logprobs
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def policy_loss(
    ratio: Tensor, advantages: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """-min(r A, clip(r, 1 - clip, 1 + clip) A) (PPO, eq. 7).

    Returns the loss, and where its gradient was cut to 0, (N,) each.
    """
    plain = ratio * advantages
    clipped = ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(plain, clipped), clipped < plain


def learning_rate_share(updates: int, update: int) -> float:
    """The share of the peak rate in one of `updates`, counted from 0.

    It rises in equal steps over the first WARMUP of them, is 1 in the update
    after these, and falls to 0 in the update that would follow the last.
    """
    warm = math.ceil(WARMUP * updates)
    if update < warm:
        return (update + 1) / (warm + 1)
    return 1 - min((update - warm) / max(updates - warm, 1), 1.0)
