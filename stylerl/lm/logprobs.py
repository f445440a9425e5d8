"""Log-probabilities of tokens, without keeping the logits.

Only the states that emit a response token reach the output embedding, their
logits exist for one chunk at a time, and the backward pass computes them
again where there is more than one.  (The chunked, recomputed cross-entropy is
the idea of arXiv 2411.09009, "Cut Your Losses".)

Notation: V vocabulary, H hidden size, N tokens laid end to end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

CHUNK = 2**23
"""Logits that exist at one time: 32 MiB of fp32."""


class TokenScores(NamedTuple):
    """Per response token, laid end to end."""

    logprobs: Tensor  # (N,) fp32, nats
    entropy: Tensor  # (N,) fp32, nats


def right_pad(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Stack token ids to (B, T)."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])


def token_scores(
    lm: PreTrainedModel, hidden: Tensor, tokens: Tensor, temperature: float
) -> TokenScores:
    """Log-probability of each token, and entropy, from the state before it.

    `hidden` is (N, H), `tokens` (N,).  The log-softmax is fp32, of raw
    logits over the temperature.
    """
    output: Any = lm.get_output_embeddings()
    logprobs, entropy = _Scores.apply(
        hidden, output.weight, output.bias, tokens, temperature
    )
    return TokenScores(logprobs, entropy)


class _Scores(torch.autograd.Function):
    """Output embedding, log-softmax and gather in one, chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tokens: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        """(N, H), (V, H), (V,) or None, (N,) -> two of (N,)."""
        ctx.set_materialize_grads(False)
        ctx.dtype, ctx.temperature = _compute_dtype(hidden), temperature
        cast = weight.to(ctx.dtype)
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        logprobs = hidden.new_empty(len(hidden), dtype=dtype)
        entropy = torch.empty_like(logprobs)
        chunks = _chunks(len(hidden), len(weight))
        for rows in chunks:
            log_p = _log_p(hidden[rows], cast, bias, temperature)
            logprobs[rows] = log_p.gather(-1, tokens[rows, None])[:, 0]
            entropy[rows] = -torch.linalg.vecdot(log_p.exp(), log_p)
        kept = log_p if len(chunks) == 1 else None
        ctx.save_for_backward(hidden, weight, bias, tokens, entropy, kept)
        return logprobs, entropy

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """From two of (N,) to the gradients of the inputs."""
        if grad_logprobs is None and grad_entropy is None:
            return (None,) * 5
        hidden, weight, bias, tokens, entropy, kept = ctx.saved_tensors
        cast = weight.to(ctx.dtype)
        grad_hidden = torch.empty_like(hidden)
        trained = ctx.needs_input_grad[1]
        grad_weight = torch.zeros_like(weight) if trained else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for rows in _chunks(len(hidden), len(weight)):
            grad = _grad_of_logits(
                _log_p(hidden[rows], cast, bias, ctx.temperature)
                if kept is None
                else kept,
                entropy[rows],
                tokens[rows],
                None if grad_logprobs is None else grad_logprobs[rows],
                None if grad_entropy is None else grad_entropy[rows],
            )
            grad /= ctx.temperature
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
            grad = grad.to(ctx.dtype)
            grad_hidden[rows] = (grad @ cast).to(hidden.dtype)
            if grad_weight is not None:
                grad_weight += grad.T @ hidden[rows].to(ctx.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None


def _grad_of_logits(
    log_p: Tensor,
    entropy: Tensor,
    tokens: Tensor,
    grad_logprobs: Tensor | None,
    grad_entropy: Tensor | None,
) -> Tensor:
    """d log p_a / dz = 1_a - p and dH / dz = -p (log p + H), (n, V)."""
    p = log_p.exp()
    if grad_entropy is None:
        factor = torch.zeros_like(log_p[:, :1])
    else:
        factor = -grad_entropy[:, None] * (log_p + entropy[:, None])
    if grad_logprobs is None:
        return p * factor
    grad = p.mul_(factor - grad_logprobs[:, None])
    return grad.scatter_add_(-1, tokens[:, None], grad_logprobs[:, None])


def _log_p(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float
) -> Tensor:
    """Log-probabilities of every token, (n, H) -> (n, V), fp32 or better."""
    product = hidden.to(weight.dtype) @ weight.T
    logits = product.to(torch.promote_types(product.dtype, torch.float32))
    if bias is not None:
        logits += bias
    return torch.log_softmax(logits.div_(temperature), dim=-1)


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """What matrix products are taken in: autocast's type where it is on."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _chunks(rows: int, vocabulary: int) -> list[slice]:
    step = max(1, CHUNK // vocabulary)
    return [slice(at, at + step) for at in range(0, rows, step)]
