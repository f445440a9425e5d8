"""The policy with its value head on the shared trunk."""

import pytest
import torch
from conftest import build_gpt2, build_llama

from stylerl.errors import ModelError
from stylerl.logprobs import right_pad
from stylerl.models import load_causal_lm
from stylerl.policy import PolicyWithValue

ROWS = [[1, 40, 50, 60, 70], [1, 60, 61, 62]]
STARTS, LENGTHS = torch.tensor([2, 3]), torch.tensor([3, 1])


def score(policy, **options):
    return policy(right_pad(ROWS, 0), STARTS, LENGTHS, 1.0, **options)


def test_values_start_at_zero_and_are_saved(tokenizer, tmp_path):
    policy = PolicyWithValue(build_llama(len(tokenizer)))
    assert torch.equal(score(policy).values, torch.zeros(4))
    torch.nn.init.ones_(policy.value_head.weight)
    policy.save(tokenizer, tmp_path / "m")
    again = PolicyWithValue(load_causal_lm(tmp_path / "m"))
    again.load_value_head(tmp_path / "m")
    assert not torch.equal(score(again).values, torch.zeros(4))
    for now, before in zip(score(again), score(policy), strict=True):
        assert torch.equal(now, before)


def test_tied_weights_are_trained_as_one(tokenizer):
    policy = PolicyWithValue(build_llama(len(tokenizer)))
    names = set(policy.state_dict()) - set(policy.trained())
    assert names == {"model.lm_head.weight"}


def test_values_do_not_depend_on_padding(tiny_lm):
    """Row 1 alone is four tokens, beside row 0 it is padded to five."""
    policy = PolicyWithValue(tiny_lm)
    torch.nn.init.ones_(policy.value_head.weight)
    together = score(policy).values
    alone = policy(
        torch.tensor([ROWS[1]]), STARTS[1:], LENGTHS[1:], 1.0
    ).values
    assert together[3:].tolist() == pytest.approx(alone.tolist(), abs=1e-5)


def test_value_only_moves_the_value_head_alone(tokenizer):
    policy = PolicyWithValue(build_llama(len(tokenizer)))
    score(policy, value_only=True).values.sum().backward()
    moved = [n for n, p in policy.named_parameters() if p.grad is not None]
    assert moved == ["value_head.weight", "value_head.bias"]
    score(policy).values.sum().backward()
    trunk = next(policy.model.base_model.parameters())
    assert trunk.grad is not None


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_gradient_checkpointing_changes_no_gradient(build, tokenizer):
    gradients = []
    for checkpointing in (False, True):
        policy = PolicyWithValue(build(len(tokenizer)))
        if checkpointing:
            policy.enable_gradient_checkpointing()
            assert policy.model.is_gradient_checkpointing
            assert policy.training
        score(policy).logprobs.sum().backward()
        gradients.append([p.grad for p in policy.model.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert torch.allclose(plain, again, atol=1e-6)


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
