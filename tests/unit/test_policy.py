"""The policy with its value head on the shared trunk."""

import pytest
import torch
from conftest import build_gpt2, build_llama
from transformers import BertConfig, BertForSequenceClassification

from stylerl.errors import ModelError
from stylerl.lm.logprobs import right_pad
from stylerl.lm.models import load_causal_lm, load_scorer, save_model
from stylerl.ppo.policy import PolicyWithValue

ROWS = [[1, 40, 50, 60, 70], [1, 60, 61, 62]]
STARTS, LENGTHS = torch.tensor([2, 3]), torch.tensor([3, 1])


def score(policy, **options):
    return policy(right_pad(ROWS, 0), STARTS, LENGTHS, 1.0, **options)


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


def test_values_do_not_depend_on_padding(tiny_lm):
    """Row 1 alone is four tokens, beside row 0 it is padded to five."""
    policy = PolicyWithValue(tiny_lm)
    torch.nn.init.ones_(policy.value_head.weight)
    together = score(policy).values
    alone = policy(
        torch.tensor([ROWS[1]]), STARTS[1:], LENGTHS[1:], 1.0
    ).values
    assert together[3:].tolist() == pytest.approx(alone.tolist(), abs=1e-5)


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


@pytest.fixture
def critic(tokenizer, tmp_path):
    """A reward model as its stage leaves one: another model than ROWS'."""
    save_model(build_llama(len(tokenizer), seed=1), tokenizer, tmp_path / "r")
    return load_scorer(tmp_path / "r", tokenizer=tokenizer)


def test_a_separate_value_model_begins_as_the_reward_model(
    critic, tokenizer, tmp_path
):
    """Its head starts at zero; then values come from its own states, and
    log-probabilities from the policy's, as they were."""
    model = build_llama(len(tokenizer))
    policy = PolicyWithValue(model, critic)
    shared = PolicyWithValue(model)
    assert torch.equal(score(policy).values, torch.zeros(4))
    assert torch.equal(score(policy).logprobs, score(shared).logprobs)
    torch.nn.init.ones_(policy.value_head.weight)
    states = critic.base_model(torch.tensor([ROWS[1]])).last_hidden_state
    assert score(policy).values[3].item() == pytest.approx(
        states[0, 2].sum().item(), abs=1e-4
    )
    score(policy).values.sum().backward()
    assert all(p.grad is None for p in policy.model.parameters())
    assert all(p.grad is not None for p in critic.base_model.parameters())


def test_a_value_model_that_cannot_be_one_is_refused(tokenizer):
    model = build_llama(len(tokenizer))
    other = build_llama(len(tokenizer) + 1)
    with pytest.raises(ModelError, match="read the policy's"):
        PolicyWithValue(model, other)
    torch.manual_seed(0)
    sighted = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
    ).eval()
    with pytest.raises(ModelError, match="must not look ahead"):
        PolicyWithValue(model, sighted)
