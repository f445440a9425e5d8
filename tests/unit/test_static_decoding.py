"""Steps of one shape sample what the plain loop samples.

On a machine with a GPU these tests run there, and the steps are captured.
"""

import gc
import weakref

import pytest
import torch
from conftest import build_gpt2, build_llama
from torch.fx.experimental import _config
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from stylerl.lm import static_decoding
from stylerl.lm.decoding import PreallocatedLayer
from stylerl.lm.sampling import generate

pytestmark = pytest.mark.device
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PROMPTS = ["def add(a, b):\n", "def f():\n", "x", "def g(items):\n"] * 2


def built(build, tokenizer, factor=1):
    """A tiny model; a larger embedding of eos ends rows early."""
    model = build(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= factor
    return model.to(DEVICE)


def sample(model, tokenizer, **options):
    options = {"max_new_tokens": 40, "seed": 3, **options}
    return generate(model, tokenizer, PROMPTS, **options).ids


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize(
    ("build", "factor"), [(build_llama, 3), (build_gpt2, -3)]
)
def test_static_steps_change_no_sample(build, factor, temperature, tokenizer):
    model = built(build, tokenizer, factor)
    options = {"temperature": temperature}
    expected = sample(model, tokenizer, static=False, **options)
    for _ in range(2):  # the second time with the steps of the first
        got = sample(model, tokenizer, static=True, **options)
        assert got == expected


def test_the_live_half_moves_to_a_smaller_step(tokenizer):
    model = built(build_llama, tokenizer, factor=3)
    ids = sample(model, tokenizer, static=True, stop_strings=["e"])
    assert ids == sample(model, tokenizer, static=False, stop_strings=["e"])
    steps = static_decoding.decoder_of(model, False).steps
    rows = {shape.rows for shape in steps}
    assert rows >= {8, 4}
    # Of 8 prompts of at most some 20 tokens and 40 new ones.
    assert {shape.room for shape in steps} == {64}


@pytest.mark.parametrize("bf16", [False, True])
def test_the_steps_follow_the_weights(bf16, tokenizer):
    model = built(build_llama, tokenizer)
    before = sample(model, tokenizer, static=True, bf16=bf16)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.full_like(weight, 0.05).normal_(0, 0.05))
    got = sample(model, tokenizer, static=True, bf16=bf16)
    again = built(build_llama, tokenizer)
    again.load_state_dict(model.state_dict())
    assert got == sample(again, tokenizer, static=True, bf16=bf16)
    assert got != before


def test_the_steps_last_used_are_kept(tokenizer, monkeypatch):
    monkeypatch.setattr(static_decoding, "KEPT", 4)  # a call's: 8, 4, 2, 1
    model = built(build_llama, tokenizer, factor=3)
    for temperature in (0.5, 0.7, 0.9, 0.5):
        options = {"temperature": temperature}
        got = sample(model, tokenizer, static=True, **options)
        assert got == sample(model, tokenizer, static=False, **options)
        steps = static_decoding.decoder_of(model, False).steps
        assert len(steps) <= 4
        assert [*steps][-1].temperature == temperature


def test_a_call_keeps_all_of_its_steps():
    rows, used = 256, 1
    while rows > 1:
        rows, used = -(-rows // 2), used + 1
    assert used < static_decoding.KEPT


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("static", [False, True])
def test_a_model_that_nobody_holds_is_freed(static, bf16, tokenizer):
    model = built(build_llama, tokenizer)
    sample(model, tokenizer, static=static, bf16=bf16)
    freed = weakref.ref(model)
    del model
    gc.collect()
    assert freed() is None


def test_the_cache_of_the_plain_loop_stays_on_its_device():
    """The device meta stands for a GPU: no CPU tensor mixes with it."""
    layer = PreallocatedLayer(capacity=8)
    states = torch.zeros(4, 2, 3, 16, device="meta")
    layer.update(states, states)
    with _config.patch(meta_nonzero_assume_all_nonzero=True):
        layer.batch_select_indices(torch.tensor([0, 3], device="meta"))
    assert layer.columns.shape == (2, 2, 16, 8)


def test_a_model_that_counts_its_keys_decodes_in_the_plain_loop(tokenizer):
    config = GPTNeoConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=128,
        window_size=8,
    )
    model = GPTNeoForCausalLM(config).eval().to(DEVICE)
    assert not static_decoding.is_supported(model)
    plain = sample(model, tokenizer, static=False)
    assert sample(model, tokenizer, static=True) == plain


@pytest.mark.parametrize(
    ("window", "used", "supported"),
    [(None, False, True), (64, False, True), (64, True, False)],
)
def test_sliding_windows_are_left_to_the_plain_loop(window, used, supported):
    model = build_llama(300)
    model.config.sliding_window = window
    model.config.use_sliding_window = used
    assert static_decoding.is_supported(model) == supported
