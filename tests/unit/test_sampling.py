"""Sampling: padding, seeds, temperature, finished rows, log-probabilities."""

import pytest
import torch
from conftest import build_gpt2, build_llama, build_tokenizer

from stylerl.errors import ModelError
from stylerl.lm import decoding, sampling, steps
from stylerl.lm.cut import whole_lines
from stylerl.lm.encoding import encode_prompt
from stylerl.lm.sampling import (
    fits_all,
    generate,
    response_logprobs,
)

PROMPTS = [
    "def add(a, b):\n",
    "def f():\n",
    'def names(items):\n    """Return the names."""\n',
    "x",
]


def sample(model, tokenizer, prompts=PROMPTS, **options):
    options = {"max_new_tokens": 12, "seed": 3, **options}
    return generate(model, tokenizer, prompts, **options)


def naive(model, prompt_ids, noise, temperature, eos):
    """One row, no padding, no cache: the definition."""
    ids, response = list(prompt_ids), []
    for u in noise.tolist():
        logits = model(torch.tensor([ids])).logits[0, -1]
        token = steps.choose_tokens(
            logits[None], torch.tensor([u]), torch.tensor([temperature])
        ).item()
        ids.append(token)
        response.append(token)
        if token == eos:
            break
    return response


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0, [0.0, 1.0, 0.0, 0.5]])
def test_batched_sampling_is_sampling_each_row_alone(
    tiny_lm, tokenizer, temperature
):
    """Left padding, the cache, and rows that leave, change no sample."""
    got = sample(tiny_lm, tokenizer, temperature=temperature)
    noise = steps.draw_uniforms(3, range(len(PROMPTS)), 12)
    each = torch.tensor(temperature).expand(len(PROMPTS)).tolist()
    expected = [
        naive(tiny_lm, ids, noise[row], each[row], 1)
        for row, ids in enumerate(got.prompt_ids)
    ]
    assert got.ids == expected


def test_a_response_that_needs_no_more_tokens_ends(tiny_llama, tokenizer):
    """Where a text has a third character; the others go on unharmed."""
    whole = sample(tiny_llama, tokenizer, PROMPTS * 4)
    asked = sample(
        tiny_llama, tokenizer, PROMPTS * 4, ends=lambda text: len(text) > 2
    )
    assert all(asked.finished)
    for ids, text, every in zip(
        asked.ids, asked.texts, whole.ids, strict=True
    ):
        assert ids == every or ids[:-1] == every[: len(ids) - 1]
        before = tokenizer.decode(ids[:-2] if ids[-1] == 1 else ids[:-1])
        assert len(text) > 2 >= len(before) or ids == every


@pytest.mark.parametrize(
    ("live", "order"),
    [
        ([1, 1, 1], [0, 1, 2]),
        ([0, 1, 1, 0, 1], [4, 1, 2]),  # the last row fills the first hole
        ([1, 0, 0, 1], [0, 3]),
        ([0, 0, 1], [2]),
    ],
)
def test_the_last_rows_fill_the_holes(live, order):
    live = torch.tensor(live, dtype=torch.bool)
    assert decoding.fill_holes(live).tolist() == order


def test_a_cache_keeps_the_rows_that_stay():
    layer = decoding.PreallocatedLayer(5)
    states = torch.arange(4 * 2 * 3 * 2.0).view(4, 2, 3, 2)
    layer.update(states, -states)
    layer.batch_select_indices(torch.tensor([3, 1]))
    one = torch.ones(2, 2, 1, 2)
    keys, values = layer.update(one, -one)
    assert torch.equal(keys[:, :, :3], states[[3, 1]])
    assert torch.equal(keys[:, :, 3:], one)
    assert torch.equal(values, -keys)


@pytest.mark.parametrize(
    ("build", "factor"), [(build_llama, 3), (build_gpt2, -3)]
)
def test_rows_that_finish_leave_the_batch(
    build, factor, tokenizer, monkeypatch
):
    """A larger eos embedding ends rows early; the rest go on unharmed."""
    model = build(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= factor
    sizes = []
    original = steps.choose_tokens

    def spy(logits, *rest):
        sizes.append(len(logits))
        return original(logits, *rest)

    prompts = [p + "a" * n for n in range(4) for p in PROMPTS]
    monkeypatch.setattr(decoding, "choose_tokens", spy)
    got = sample(model, tokenizer, prompts, max_new_tokens=20)
    monkeypatch.setattr(decoding, "choose_tokens", original)
    assert sizes[0] == 16 > sizes[-1] > 0
    noise = steps.draw_uniforms(3, range(16), 20)
    for row, ids in enumerate(got.prompt_ids):
        assert got.ids[row] == naive(model, ids, noise[row], 1.0, 1)
    assert any(got.finished)
    assert not all(got.finished)


def test_a_rows_samples_do_not_depend_on_the_batch(tiny_llama, tokenizer):
    whole = sample(tiny_llama, tokenizer)
    split = sample(tiny_llama, tokenizer, batch_size=1)
    longer = sample(tiny_llama, tokenizer, [*PROMPTS, "def g(x):\n"])
    assert whole.ids == split.ids == longer.ids[:4]
    other = sample(tiny_llama, tokenizer, seed=4)
    assert whole.ids != other.ids


def test_inverting_a_distribution_by_hand():
    """p = 1/4, 0, 3/4: below 1/4 the first token, from there the third; the
    impossible one never.  At temperature 2 the odds are 1 : sqrt(3), so that
    the first has 0.366."""
    logits = torch.tensor([0.25, 0.0, 0.75]).log().expand(5, 3)
    noise = torch.tensor([0.0, 0.2499, 0.2501, 0.9, 1 - 2**-53])
    tokens = steps.choose_tokens(logits, noise.double(), torch.ones(5))
    assert tokens.tolist() == [0, 0, 2, 2, 2]
    noise = torch.tensor([0.365, 0.367]).double()
    tokens = steps.choose_tokens(logits[:2], noise, torch.tensor([2.0, 2.0]))
    assert tokens.tolist() == [0, 2]


def test_eos_is_kept_as_the_last_token_and_not_in_the_text(tokenizer):
    model = build_llama(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3
    got = sample(model, tokenizer, PROMPTS * 4, max_new_tokens=20)
    assert True in got.finished
    assert False in got.finished
    for ids, text, finished in zip(
        got.ids, got.texts, got.finished, strict=True
    ):
        assert (ids[-1] == 1) == finished
        assert 1 not in ids[:-1]
        assert finished or len(ids) == 20
        assert "<|eos|>" not in text
        assert text == tokenizer.decode(ids[:-1] if finished else ids)


def test_a_cut_completion_is_judged_without_its_last_line():
    """Whether a text ends in a newline is the model's act, not the cut's."""
    got = sampling.Completions(
        prompt_ids=[[1]] * 4,
        ids=[[2]] * 4,
        finished=[True, False, False, False],
        texts=["    x = 1", "    x = 1\n    y =", "    y =", "    x\n"],
    )
    assert got.judged == ["    x = 1", "    x = 1\n", "", "    x\n"]
    assert whole_lines("a\r\nb") == "a\r\n"


def test_response_logprobs_are_those_of_the_samples(tiny_lm, tokenizer):
    """Taken at the sampling temperature, whatever shares a pass."""
    got = sample(tiny_lm, tokenizer, temperature=0.7)
    for pass_tokens in (1, 25, 1000):
        logprobs = response_logprobs(
            tiny_lm,
            got.prompt_ids,
            got.ids,
            temperature=0.7,
            pass_tokens=pass_tokens,
        )
        for row, response in enumerate(got.ids):
            ids = torch.tensor([got.prompt_ids[row] + response])
            logp = torch.log_softmax(tiny_lm(ids).logits[0] / 0.7, dim=-1)
            first = len(got.prompt_ids[row]) - 1
            expected = [
                logp[first + at, token].item()
                for at, token in enumerate(response)
            ]
            assert logprobs[row].tolist() == pytest.approx(expected, abs=1e-5)


def test_an_empty_response_has_no_logprobs(tiny_llama):
    got = response_logprobs(tiny_llama, [[1, 40], [1, 41]], [[], [50]])
    assert [len(each) for each in got] == [0, 1]


def test_bf16_leaves_the_model_as_it_was(tokenizer):
    model = build_llama(len(tokenizer))
    got = sample(model, tokenizer, bf16=True)
    assert model.dtype == torch.float32
    assert len(got.ids) == 4


def test_a_prompt_that_does_not_fit_is_one_clear_error(tokenizer):
    model = build_llama(len(tokenizer))
    with pytest.raises(ModelError, match="256 positions; the longest"):
        sample(model, build_tokenizer(), ["x" * 400], max_new_tokens=10)


def test_what_fits_every_model(llama_folder, tokenizer):
    """256 positions: a prompt and its first token may have 246."""
    fits = fits_all([llama_folder], 10)
    short = next(n for n in range(400, 0, -1) if fits("x" * n))
    assert len(encode_prompt(tokenizer, "x" * short)) <= 246
    assert len(encode_prompt(tokenizer, "x" * (short + 1))) == 247
    assert fits_all([], 10)("x" * 400)
