"""Packed passes: a group's prompt computed once changes nothing."""

import copy

import bases
import pytest
import torch
from conftest import build_gpt2, build_llama

from stylerl.errors import ModelError
from stylerl.lm.attention import attention
from stylerl.lm.logprobs import response_scores
from stylerl.lm.models import load_causal_lm
from stylerl.lm.packing import SHARED_PROMPT, Group, pack

GROUPS = [
    Group([1, 40, 50], [[70, 71, 2], [80]]),
    Group([1], [[60, 61, 62, 63, 2]]),
    Group([1, 60, 61, 62, 63], [[5, 6], [7, 8, 9], [2]]),
]


def alone(lm, group, response, temperature=0.8):
    """The plain way: one sequence, all its logits, (r,)."""
    ids = torch.tensor([[*group.prompt, *response]])
    logits = lm(ids).logits[0, len(group.prompt) - 1 : -1] / temperature
    every = torch.log_softmax(logits, dim=-1)
    return every.gather(-1, torch.tensor(response)[:, None])[:, 0]


def packed(lm, groups, temperature=0.8):
    """The log-probabilities of a pack's response tokens, (M,)."""
    return response_scores(lm, pack(groups), temperature).logprobs


def test_places_by_hand():
    """Prompts of 3 and 1 tokens are the row's places 0-2 and 3.  What is read
    of the responses, all but their last tokens, follows: 70 and 71 are at 4
    and 5, nothing of [80], then 60-63 at 6-9."""
    one = pack(GROUPS[:2])
    assert one.input_ids.tolist() == [[1, 40, 50, 1, 70, 71, 60, 61, 62, 63]]
    assert one.positions.tolist() == [[0, 1, 2, 0, 3, 4, 1, 2, 3, 4]]
    # 70, 71 and 2 are emitted at the prompt's last place, 4 and 5.
    assert one.emitting.tolist() == [2, 4, 5, 2, 3, 6, 7, 8, 9]
    assert one.tokens.tolist() == [70, 71, 2, 80, 60, 61, 62, 63, 2]
    assert one.layout.prompts.tolist() == [[0, 1, 2], [3, 0, 0]]
    assert one.layout.is_prompt.int().tolist() == [[1, 1, 1], [1, 0, 0]]
    assert one.layout.responses.tolist() == [
        [[4, 5, 0, 0], [0, 0, 0, 0]],
        [[6, 7, 8, 9], [0, 0, 0, 0]],
    ]
    # Of 2 x 3 places of prompts, and 2 x 8 of responses after them.
    assert one.layout.padded.tolist() == [0, 1, 2, 3, 6, 7, 14, 15, 16, 17]


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
@pytest.mark.parametrize(
    "groups", [GROUPS, GROUPS[:1], GROUPS[1:2], [Group([1, 9], [[5]])]]
)
def test_logprobs_and_gradients_are_those_of_each_sequence(
    build, groups, tokenizer
):
    lm = build(len(tokenizer))
    ours = packed(lm, groups)
    ours.sum().backward()
    gradients = [copy.deepcopy(p.grad) for p in lm.parameters()]
    lm.zero_grad()
    theirs = torch.cat(
        [alone(lm, each, row) for each in groups for row in each.responses]
    )
    theirs.sum().backward()
    assert torch.allclose(ours, theirs, atol=1e-5)
    for mine, plain in zip(gradients, lm.parameters(), strict=True):
        assert torch.allclose(mine, plain.grad, atol=1e-4)


@pytest.mark.parametrize("family", ["qwen2", "starcoder2"])
def test_other_families_too(family, tmp_path):
    bases.BASES[family](tmp_path)
    lm = load_causal_lm(tmp_path)
    theirs = torch.cat(
        [alone(lm, each, row) for each in GROUPS for row in each.responses]
    )
    assert torch.allclose(packed(lm, GROUPS), theirs, atol=1e-5)


def test_without_a_layout_it_is_an_error(tiny_llama):
    with (
        attention(SHARED_PROMPT, tiny_llama),
        pytest.raises(ModelError, match="hand its options"),
    ):
        tiny_llama(torch.tensor([[1, 2]]))
