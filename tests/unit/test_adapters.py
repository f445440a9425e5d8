"""LoRA: what is trained, what stands as the reference, what is saved."""

import copy

import pytest
import torch
from safetensors.torch import load_file

from stylerl.errors import ConfigError
from stylerl.lm.models import fuse_gelu, load_causal_lm
from stylerl.ppo import PPOConfig, PPOTrainer
from stylerl.ppo.policy import PolicyWithValue

IDS = torch.tensor([[1, 40, 50, 60, 70, 80]])


@pytest.fixture
def model(tiny_lm):
    """Each of the two architectures, with the GELU that a policy has."""
    fuse_gelu(tiny_lm)
    return tiny_lm


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def adapted(model, targets=("all-linear",)):
    """A policy whose adapters do something: B is no longer zero."""
    policy = PolicyWithValue(model)
    policy.add_adapters(rank=2, alpha=4.0, targets=targets, seed=0)
    torch.manual_seed(1)
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    return policy


def make(model, tokenizer, **options):
    config = {
        "updates": 3,
        "batch_size": 4,
        "num_minibatches": 2,
        "max_new_tokens": 6,
        "learning_rate": 1e-2,
        "precision": "fp32",
        "lora_rank": 2,
        "checkpoint_every": 1,
    }
    return PPOTrainer(
        PPOConfig(**config),
        policy=copy.deepcopy(model),
        tokenizer=tokenizer,
        reward=lambda p, c: [float(len(set(text))) for text in c],
        prompts=["def add(a, b):\n", "x"],
        **options,
    )


def test_off_is_the_model_that_was_adapted(model):
    before = logits(model)
    policy = adapted(model)
    assert (logits(policy.model) - before).abs().max() > 0.1
    with policy.adapters_off():
        assert torch.equal(logits(policy.model), before)
    assert (logits(policy.model) - before).abs().max() > 0.1


def test_a_new_adapter_changes_nothing_and_is_drawn_by_its_seed(model):
    before = logits(model)
    drawn = []
    for seed in (0, 0, 1):
        policy = PolicyWithValue(copy.deepcopy(model))
        state = torch.get_rng_state()
        policy.add_adapters(2, 4.0, ["all-linear"], seed)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(logits(policy.model), before)
        drawn.append(
            torch.cat([w.flatten() for w in policy.trained().values()])
        )
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_training_with_the_adapters_off_as_reference_is_as_with_a_copy(
    model, tokenizer
):
    """No second model is held, and only adapters and value head move."""
    alone = make(model, tokenizer)
    assert alone.reference is None
    beside = make(model, tokenizer, reference=copy.deepcopy(model))
    start = {n: w.clone() for n, w in alone.policy.named_parameters()}
    for trainer in (alone, beside):
        for _ in trainer:
            pass
    assert alone.history == beside.history
    assert alone.history[-1]["objective/kl"] != 0
    moved = {
        name
        for name, weight in alone.policy.named_parameters()
        if not torch.equal(weight, start[name])
    }
    assert moved == set(alone.policy.trained())
    assert all("lora_" in n or n.startswith("value_head") for n in moved)


def test_the_saved_model_is_stock_and_merged(model, tokenizer, tmp_path):
    policy = adapted(model)
    policy.save(tokenizer, tmp_path / "m")
    loaded = load_causal_lm(tmp_path / "m")
    assert type(loaded) is type(model)
    expected = logits(policy.model)
    assert torch.allclose(logits(loaded), expected, atol=1e-4)
    names = load_file(tmp_path / "m" / "model.safetensors")
    assert not any("lora" in name for name in names)


def test_a_resumed_run_ends_bit_for_bit_where_the_other_does(
    model, tokenizer, tmp_path
):
    whole = make(model, tokenizer, checkpoints=tmp_path / "whole")
    for _ in whole:
        pass
    for stop in (2, 3):
        part = make(model, tokenizer, checkpoints=tmp_path / "part")
        for step in part:
            if step.update == stop:
                break
    assert part.history == whole.history
    for name, weight in whole.policy.trained().items():
        assert torch.equal(weight, part.policy.trained()[name]), name
    kept = load_file(tmp_path / "part" / "000003" / "policy.safetensors")
    assert set(kept) == set(whole.policy.trained())


def test_gradient_checkpointing_changes_no_gradient(model):
    gradients = []
    for checkpointing in (False, True):
        policy = adapted(copy.deepcopy(model))
        if checkpointing:
            policy.enable_gradient_checkpointing()
        starts, lengths = torch.tensor([2]), torch.tensor([4])
        policy(IDS, starts, lengths, 1.0).logprobs.sum().backward()
        gradients.append(
            {n: p.grad for n, p in policy.named_parameters() if "lora" in n}
        )
    for name, plain in gradients[0].items():
        assert torch.allclose(plain, gradients[1][name], atol=1e-4), name


def test_targets_are_names_of_layers(tiny_llama):
    policy = adapted(copy.deepcopy(tiny_llama), targets=["q_proj", "v_proj"])
    adapters = [n for n in policy.trained() if "lora_A" in n]
    assert len(adapters) == 4  # two layers of two
    with pytest.raises(ConfigError, match="q_proj") as error:
        adapted(tiny_llama, targets=["c_attn"])
    assert "c_attn" in str(error.value)
