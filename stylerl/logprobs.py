"""Log-probabilities of response tokens, without keeping the logits.

Two costs dominate scoring a response: logits on positions nobody asks for,
and copies of (B, T, V).  Here only the states that emit a response token
reach the output embedding, their logits exist for one chunk at a time, and
the backward pass computes them again.  (The chunked, recomputed
cross-entropy is the idea of arXiv 2411.09009, "Cut Your Losses".)

Notation: B sequences, T tokens with the prompt, V vocabulary, H hidden
size, N response tokens of the batch laid end to end.
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
    """Stack token ids to (B, T).

    Behind a causal mask the padding after a sequence changes nothing, so
    sequences padded on the right need neither mask nor position ids.
    """
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])


def response_mask(prompt_lengths: Tensor, lengths: Tensor, t: int) -> Tensor:
    """Where the states that emit response tokens stand, (B, T) bool.

    The state at position p predicts token p + 1, so a response of r tokens
    behind a prompt of p is emitted at positions p - 1 .. p + r - 2.
    """
    at = torch.arange(t, device=lengths.device)
    first = prompt_lengths[:, None] - 1
    return (at >= first) & (at < first + lengths[:, None])


def response_states(
    lm: PreTrainedModel, ids: Tensor, prompt_lengths: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The state before each response token, (N, H), and that token, (N,).

    `ids` is (B, T), right-padded; the lengths are (B,).
    """
    mask = response_mask(prompt_lengths, lengths, ids.shape[1])
    hidden = lm.base_model(ids, use_cache=False).last_hidden_state
    return hidden[mask], ids[:, 1:][mask[:, :-1]]


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
        ctx.dtype = _compute_dtype(hidden)
        ctx.temperature = temperature
        logprobs, entropy = [], []
        for rows in _chunks(len(hidden), len(weight)):
            log_all = _log_softmax(
                hidden[rows], weight, bias, temperature, ctx.dtype
            )
            token = tokens[rows, None]
            logprobs.append(log_all.gather(-1, token).squeeze(-1))
            entropy.append(-(log_all.exp() * log_all).sum(dim=-1))
        ctx.save_for_backward(hidden, weight, bias, tokens)
        return torch.cat(logprobs), torch.cat(entropy)

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_logprobs: Tensor | None, grad_entropy: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Softmax p, logits z: d log p_a / dz = 1_a - p and
        dH / dz = -p (log p + H)."""
        hidden, weight, bias, tokens = ctx.saved_tensors
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for rows in _chunks(len(hidden), len(weight)):
            log_all = _log_softmax(
                hidden[rows], weight, bias, ctx.temperature, ctx.dtype
            )
            p = log_all.exp()
            grad = torch.zeros_like(p)
            if grad_logprobs is not None:
                outer = grad_logprobs[rows, None]
                grad = -outer * p
                grad.scatter_add_(-1, tokens[rows, None], outer)
            if grad_entropy is not None:
                entropy = -(p * log_all).sum(dim=-1, keepdim=True)
                grad -= grad_entropy[rows, None] * p * (log_all + entropy)
            grad = (grad / ctx.temperature).to(ctx.dtype)
            grad_hidden[rows] = (grad @ weight.to(ctx.dtype)).to(hidden.dtype)
            grad_weight += grad.T @ hidden[rows].to(ctx.dtype)
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
        return grad_hidden, grad_weight, grad_bias, None, None


def _log_softmax(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    temperature: float,
    dtype: torch.dtype,
) -> Tensor:
    """(n, H) -> (n, V), in fp32 or better."""
    logits = hidden.to(dtype) @ weight.to(dtype).T
    logits = logits.to(torch.promote_types(dtype, torch.float32))
    if bias is not None:
        logits = logits + bias
    return torch.log_softmax(logits / temperature, dim=-1)


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """What matrix products are taken in: autocast's type where it is on."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _chunks(rows: int, vocabulary: int) -> list[slice]:
    step = max(1, CHUNK // vocabulary)
    return [slice(at, at + step) for at in range(0, rows, step)]
