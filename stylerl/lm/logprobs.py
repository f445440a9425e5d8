"""Log-probabilities of tokens, without keeping the logits.

Only the states that emit a response token reach the output embedding, their
logits exist for one chunk at a time, and the backward pass computes them
again where there is more than one.  (The chunked, recomputed cross-entropy is
the idea of arXiv 2411.09009, "Cut Your Losses".)

Notation: V vocabulary, H hidden size, N tokens laid end to end.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stylerl.lm.packing import Pack, response_states

CHUNK = 2**22
"""Logits that exist at one time, 16 MiB of fp32: more would be asked of the
system anew each time, and less would read the embedding too often."""


class TokenScores(NamedTuple):
    """Per response token, laid end to end."""

    logprobs: Tensor  # (N,) fp32, nats
    entropy: Tensor  # (N,) fp32, nats


def response_scores(
    lm: PreTrainedModel, packed: Pack, temperature: float
) -> TokenScores:
    """Score the response tokens of a pass."""
    hidden = response_states(lm, packed)
    return token_scores(lm, hidden, packed.tokens, temperature)


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
        ctx.dtype, ctx.temperature = _compute_dtype(hidden), temperature
        cast = weight.to(ctx.dtype)
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        logprobs = hidden.new_empty(len(hidden), dtype=dtype)
        entropy = torch.empty_like(logprobs)
        for rows in _chunks(len(hidden), len(weight)):
            z, e, total = _softmax_parts(hidden[rows], cast, bias, temperature)
            chosen = z.gather(-1, tokens[rows, None])[:, 0]
            with torch.autocast(z.device.type, enabled=False):  # in fp32
                mean = torch.linalg.vecdot(e, z) / total
            logprobs[rows] = chosen - total.log()
            entropy[rows] = total.log() - mean
        ctx.save_for_backward(hidden, weight, bias, tokens)
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_logprobs: Tensor, _: Any
    ) -> tuple[Tensor | None, ...]:
        """From (N,) to the gradients of the inputs: d log p_a / dz = 1_a - p.

        Entropy is logged, and has none.
        """
        hidden, weight, bias, tokens = ctx.saved_tensors
        cast = weight.to(ctx.dtype)
        grad_hidden = torch.empty_like(hidden)
        trained = ctx.needs_input_grad[1]
        grad_weight = torch.zeros_like(weight) if trained else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for rows in _chunks(len(hidden), len(weight)):
            _, e, total = _softmax_parts(
                hidden[rows], cast, bias, ctx.temperature
            )
            # 1_a dlogp - p dlogp, in the memory of e.
            of_p = grad_logprobs[rows]
            grad = e.mul_(-(of_p / total)[:, None])
            grad.scatter_add_(-1, tokens[rows, None], of_p[:, None])
            grad /= ctx.temperature
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
            grad = grad.to(ctx.dtype)
            grad_hidden[rows] = (grad @ cast).to(hidden.dtype)
            if grad_weight is not None:
                grad_weight += grad.T @ hidden[rows].to(ctx.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None


def _softmax_parts(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits z over the temperature, less their largest, e^z and its sum.

    (n, H) -> (n, V), (n, V), (n,), fp32 or better.
    """
    product = hidden.to(weight.dtype) @ weight.T
    z = product.to(torch.promote_types(product.dtype, torch.float32))
    if bias is not None:
        z += bias
    z /= temperature
    z -= z.amax(dim=-1, keepdim=True)
    e = z.exp()
    return z, e, e.sum(dim=-1)


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """The type of matrix products: autocast's where it is on."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _chunks(rows: int, vocabulary: int) -> list[slice]:
    step = max(1, CHUNK // vocabulary)
    return [slice(at, at + step) for at in range(0, rows, step)]
