"""The policy with its value head on the shared trunk."""

import pytest
import torch
from conftest import build_llama

from stylerl.errors import ModelError
from stylerl.lm.models import load_causal_lm
from stylerl.lm.packing import Group, pack
from stylerl.ppo.policy import PolicyWithValue

GROUPS = [Group([1, 40], [[50, 60, 70]]), Group([1, 60, 61], [[62]])]


def score(policy, groups=GROUPS):
    return policy(pack(groups), 1.0)


def test_values_start_at_zero_and_the_critic_is_not_saved(tokenizer, tmp_path):
    policy = PolicyWithValue(build_llama(len(tokenizer)))
    assert torch.equal(score(policy).values, torch.zeros(4))
    torch.nn.init.ones_(policy.value_head.weight)
    assert not torch.equal(score(policy).values, torch.zeros(4))
    policy.save(tokenizer, tmp_path / "m")
    again = PolicyWithValue(load_causal_lm(tmp_path / "m"))
    assert torch.equal(score(again).logprobs, score(policy).logprobs)
    assert torch.equal(score(again).values, torch.zeros(4))
    assert [path.name for path in (tmp_path / "m").glob("*.safetensors")] == [
        "model.safetensors"
    ]


def test_tied_weights_are_trained_as_one(tokenizer):
    policy = PolicyWithValue(build_llama(len(tokenizer)))
    names = set(policy.state_dict()) - set(policy.trained())
    assert names == {"model.lm_head.weight"}


def test_values_do_not_depend_on_what_else_is_in_the_pass(tiny_lm):
    """Group 1 alone, and beside a longer response."""
    policy = PolicyWithValue(tiny_lm)
    torch.nn.init.ones_(policy.value_head.weight)
    together = score(policy).values
    alone = score(policy, GROUPS[1:]).values
    assert together[3:].tolist() == pytest.approx(alone.tolist(), abs=1e-5)


def test_the_policy_refuses_logits_that_are_not_linear(tokenizer):
    model = build_llama(len(tokenizer))
    forward = model.forward

    def capped(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = torch.tanh(out.logits)
        return out

    model.forward = capped
    with pytest.raises(ModelError, match="logits must be"):
        PolicyWithValue(model)
