"""Attention of one query a row against its definition."""

import pytest
import torch
from conftest import build_gpt2, build_llama

from stylerl.lm.attention import (
    ONE_QUERY,
    attention,
    decoding_attention,
    one_query_attention,
)

B, S, D = 3, 7, 8


def by_definition(query, key, value, seen, scaling):
    """softmax(q k / sqrt(d)) v, in float64, one row and head at a time."""
    heads, group = query.shape[1], query.shape[1] // key.shape[1]
    out = torch.empty(B, 1, heads, D, dtype=torch.float64)
    for b in range(B):
        for h in range(heads):
            keys, values = (
                t[b, h // group][seen[b]].double() for t in (key, value)
            )
            weights = torch.softmax(
                keys @ query[b, h, 0].double() * scaling, dim=0
            )
            out[b, 0, h] = weights @ values
    return out


@pytest.mark.parametrize("scaling", [None, 0.2])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kept", [1, 2, 4])
def test_one_query_is_attention_by_definition(kept, padded, scaling):
    torch.manual_seed(0)
    query = torch.randn(B, 4, 1, D)
    columns = torch.randn(B, kept, D, S + 5)  # a buffer with room to spare
    key = columns[..., :S].transpose(2, 3)
    value = torch.randn(B, kept, S + 5, D)[:, :, :S]
    seen = torch.ones(B, S, dtype=torch.bool)
    if padded:
        seen[0, :3] = seen[2, :1] = False
    mask = seen[:, None, None] if padded else None
    got, weights = one_query_attention(
        torch.nn.Identity(), query, key, value, mask, scaling
    )
    expected = by_definition(query, key, value, seen, scaling or D**-0.5)
    assert weights is None
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_a_model_computes_the_same_with_it(build):
    model = build(300)
    ids = torch.tensor([[5, 6, 7, 8]])
    expected = model(ids).logits[:, -1]
    with attention(ONE_QUERY, model):
        before = model(ids[:, :3], use_cache=True)  # torch's own kernel
        got = model(ids[:, 3:], past_key_values=before.past_key_values)
    torch.testing.assert_close(got.logits[:, -1], expected)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("dtype", "own", "used"),
    [
        (torch.bfloat16, "sdpa", ONE_QUERY),
        (torch.float32, "sdpa", "sdpa"),
        (torch.bfloat16, "eager", "eager"),  # what the user asked for
    ],
)
def test_it_decodes_in_bf16_in_the_place_of_torchs_kernel(dtype, own, used):
    model = build_llama(300).to(dtype)
    model.set_attn_implementation(own)
    with decoding_attention(model):
        assert model.config._attn_implementation == used
    assert model.config._attn_implementation == own
