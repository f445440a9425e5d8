"""LoRA: what is trained, what stands as the reference, what is saved."""

import copy

import pytest
import torch
from conftest import build_trainer
from safetensors.torch import load_file
from transformers.pytorch_utils import Conv1D

from stylerl.lm.adapters import LoRA, rounded
from stylerl.lm.models import cast_weights, load_causal_lm
from stylerl.lm.saving import save_model
from stylerl.ppo import by_reward
from stylerl.ppo.policy import Policy

IDS = torch.tensor([[1, 40, 50, 60, 70, 80]])


@pytest.fixture
def model(tiny_lm):
    """Each of the two architectures."""
    return tiny_lm


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def adapted(model):
    """A policy whose adapters do something: B is no longer zero."""
    policy = Policy(model)
    policy.add_adapters(rank=2, seed=0)
    torch.manual_seed(1)
    for name, weight in policy.named_parameters():
        if "lora_b" in name:
            torch.nn.init.normal_(weight)
    policy.merge()
    return policy


def make(model, tokenizer, **options):
    config = {
        "updates": 3,
        "batch_size": 4,
        "group_size": 2,
        "num_minibatches": 2,
        "max_new_tokens": 6,
        "learning_rate": 1e-2,
        "lora_rank": 2,
        "checkpoint_every": 1,
        **options,
    }
    judging = by_reward(lambda p, c: [float(len(set(text))) for text in c])
    prompts, policy = ["def add(a, b):\n", "x"], copy.deepcopy(model)
    return build_trainer(judging, prompts, policy, tokenizer, **config)


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
        policy = Policy(copy.deepcopy(model))
        state = torch.get_rng_state()
        policy.add_adapters(2, seed)
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
    """No second model is held, and only adapters move."""
    alone = make(model, tokenizer)
    assert alone.reference is None
    beside = make(model, tokenizer, reference=copy.deepcopy(model))
    start = {n: w.clone() for n, w in alone.policy.named_parameters()}
    for trainer in (alone, beside):
        list(trainer)  # to its end
    assert alone.history == beside.history
    assert alone.history[-1]["objective/kl"] != 0
    moved = {
        name
        for name, weight in alone.policy.named_parameters()
        if not torch.equal(weight, start[name])
    }
    # Beside what is trained, the weights that are formed of it.
    trained = {name for name in moved if "lora_" in name}
    assert trained == set(alone.policy.trained())
    assert moved - trained == {
        f"{name.rpartition('.')[0]}.weight" for name in trained
    }


def test_the_saved_model_is_stock_and_merged(model, tokenizer, tmp_path):
    policy = adapted(model)
    save_model(policy.model, tokenizer, tmp_path / "m")
    loaded = load_causal_lm(tmp_path / "m")
    assert type(loaded) is type(model)
    assert torch.equal(logits(loaded), logits(policy.model))
    names = load_file(tmp_path / "m" / "model.safetensors")
    assert not any("lora" in name for name in names)


def test_a_resumed_run_ends_bit_for_bit_where_the_other_does(
    model, tokenizer, tmp_path
):
    whole = make(model, tokenizer, checkpoints=tmp_path / "whole")
    list(whole)  # to its end
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


def test_its_gradient_is_that_of_the_written_out_sum():
    """y = x (W + 2 B A)^T, of a Linear (out, in) and a Conv1D (in, out)."""
    for layer in (torch.nn.Linear(4, 3), Conv1D(3, 4)):
        lora = LoRA(layer, 2, torch.Generator().manual_seed(0))
        torch.nn.init.normal_(lora.lora_b)
        lora.merge()
        weight = lora.frozen.T if lora.transposed else lora.frozen
        x = torch.randn(5, 4, requires_grad=True)
        a, b = (
            w.detach().requires_grad_() for w in (lora.lora_a, lora.lora_b)
        )
        plain = x @ (weight + 2 * b @ a).T + layer.bias
        ours = lora(x)
        assert torch.allclose(ours, plain, atol=1e-5)
        gradients = [
            torch.autograd.grad(y.pow(2).sum(), parts)
            for y, parts in (
                (plain, (x, a, b)),
                (ours, (x, lora.lora_a, lora.lora_b)),
            )
        ]
        for mine, theirs in zip(*gradients, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4)


def test_the_sampler_and_the_update_share_the_merged_weights(tiny_llama):
    """In bf16 too: what is saved and sampled is what is scored, to the bit,
    and that is W + 2 B A in a step of bf16 beside it."""
    policy = Policy(tiny_llama)
    cast_weights(tiny_llama, torch.bfloat16)
    policy.add_adapters(rank=2, seed=0)
    for layer in policy.adapters.layers:
        torch.nn.init.normal_(layer.lora_b)
    policy.merge()
    for layer in policy.adapters.layers:
        whole = layer.frozen.float() + 2 * layer.lora_b @ layer.lora_a
        assert torch.equal(layer.weight.float(), rounded(whole))
        # A step is 2^-7 of the power of two below, so at most of the number.
        apart = (layer.weight.float() - whole).abs()
        assert (apart <= whole.abs() / 128).all()
        assert layer.lora_a.dtype == torch.float32


def test_rounding_keeps_small_steps_on_average():
    """Steps of bf16 from 1 are 1/128: a tenth of one, rounded to nearest,
    is lost; here one weight in ten takes it."""
    ones = torch.ones(300, 300)
    assert torch.equal(rounded(ones), ones)
    moved = rounded(ones + 0.1 / 128)
    assert set(moved.unique().tolist()) == {1.0, 1 + 1 / 128}
    # The share of 90,000 draws has a deviation of sqrt(.1 * .9 / 90000)
    # = 0.001.
    share = (moved > 1).float().mean().item()
    assert share == pytest.approx(0.1, abs=0.005)
    assert torch.equal(rounded(-ones - 0.1 / 128), -moved)
