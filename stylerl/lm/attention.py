"""Which implementation of attention a model computes with.

transformers holds several under a name each; here is one more, for the
decoding loop on a CPU.  There one query meets hundreds of cached keys, and
torch's fused kernel, made for many queries, is slower than two matrix
products.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

ONE_QUERY = "one_query"


@contextmanager
def attention(name: str, model: PreTrainedModel) -> Iterator[None]:
    """Compute with another implementation of attention inside the block."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def decoding_attention(
    model: PreTrainedModel,
) -> AbstractContextManager[None]:
    """ONE_QUERY inside the block, where it is the faster one.

    In fp32, reading the keys takes as long either way.
    """
    implementation = model.config._attn_implementation
    here = model.device.type == "cpu" and model.dtype == torch.bfloat16
    return attention(
        ONE_QUERY if here and implementation == "sdpa" else implementation,
        model,
    )


def one_query_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one query a row.

    B rows, S keys, H heads, K of them with keys of their own, D dimensions
    of a head.

    Args:
        module: whose attention this is.
        query: (B, H, 1, D); torch's own kernel serves more queries.
        key: (B, K, S, D), kept as columns; head h reads that of h // (H / K).
        value: (B, K, S, D).
        attention_mask: (B, 1, 1, S), true where a key is seen; None: all.
        scaling: of the scores, D^-0.5 by default.
        options: of torch's own kernel.

    Returns:
        (B, 1, H, D), and no weights.
    """
    b, heads, queries, d = query.shape
    if queries > 1 or options.get("position_bias") is not None:
        arguments = (key.contiguous(), value, attention_mask)
        return sdpa_attention_forward(
            module, query, *arguments, scaling=scaling, **options
        )
    key_heads = key.shape[1]
    scale = d**-0.5 if scaling is None else scaling
    states = (query * scale).reshape(b * key_heads, heads // key_heads, d)
    scores = torch.bmm(states, key.transpose(2, 3).flatten(0, 1))
    if attention_mask is not None:
        by_row = scores.view(b, heads, 1, -1)  # the same memory
        by_row.masked_fill_(~attention_mask, -torch.inf)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
    mixed = torch.bmm(weights, value.flatten(0, 1))
    return mixed.view(b, 1, heads, d), None


AttentionInterface.register(ONE_QUERY, one_query_attention)
AttentionMaskInterface.register(ONE_QUERY, sdpa_mask)
