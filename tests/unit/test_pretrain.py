"""The base model's stage: tokenizer, batches, schedule, loss, a tiny run."""

import math
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from stylerl.config import PretrainConfig, from_preset, presets
from stylerl.errors import DataError
from stylerl.supervised import pretrain

TINY = PretrainConfig(
    vocabulary=300,
    hidden=32,
    layers=1,
    context=64,
    tokens=6000,
    batch_tokens=512,
    compile=False,
)


@pytest.fixture
def tokenizer():
    return pretrain.train_tokenizer(["def f(a):\n    return a\n"] * 9, 300)


def snippets(count=40):
    text = "def f{0}(a):\n    return a + {0}\n"
    return pd.DataFrame(
        {
            "id": [f"{n:016x}" for n in range(count)],
            "text": [text.format(n) for n in range(count)],
            "body_start": [len(f"def f{n}(a):") for n in range(count)],
            "distribution": "d",
            "version": "1",
            "licence": "MIT",
            "split": [
                "valid" if n % 4 == 0 else "train" for n in range(count)
            ],
        }
    )


@pytest.mark.parametrize("preset", presets())
def test_dvcstore_may_hold_the_base_model(preset, tokenizer):
    settings = from_preset(preset).pretrain
    lacking = settings.vocabulary - len(tokenizer)
    tokenizer.add_tokens([f"<{number}>" for number in range(lacking)])
    with torch.device("meta"):
        model = pretrain.new_model(settings, tokenizer)
    assert model.get_input_embeddings().weight.shape[0] == settings.vocabulary
    in_bf16 = 2 * sum(weight.numel() for weight in model.parameters())
    assert in_bf16 <= 25 * 2**20


@pytest.mark.parametrize(
    "text",
    [
        "def f(a) :\n\treturn  a ;  \n\n\n",
        " x\r\n\x0c\n",
        "s = 'héé ☃ 𝔘 ''\\t'\n",
        "don 't  do n't . a , b ! c\n",
    ],
)
def test_the_tokenizer_gives_every_text_back(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_pad_and_eos_are_two_tokens(tokenizer):
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_a_document_stands_between_two_ends_or_is_left_out(tokenizer):
    eos = tokenizer.eos_token_id
    short, long = pretrain.encode(tokenizer, ["a", "b" * 9], 20)
    assert short[0] == short[-1] == long[0] == long[-1] == eos
    assert pretrain.encode(tokenizer, ["a", "?" * 9], 3) == [short]


def test_batches_hold_every_document_once_and_fit_the_budget():
    rng = random.Random(0)
    documents = [[n] * rng.randint(2, 60) for n in range(200)]
    found = list(pretrain.batches(documents, 256, rng))
    assert sorted(d for b in found for d in b) == sorted(documents)
    assert max(len(b) * max(map(len, b)) for b in found) <= 256
    # Documents of like length meet: at most 7 in 60 positions are padding
    # beyond the boundary between two groups of 8 lengths.
    padded = sum(len(b) * max(map(len, b)) for b in found)
    assert padded / sum(map(len, documents)) < 1.25


@pytest.mark.parametrize(
    ("seen", "budget", "share"),
    [
        # warm-up over a fiftieth, decay over the last three tenths
        (0, 1000, 0.01),
        (10, 1000, 0.5),
        (20, 1000, 1.0),
        (700, 1000, 1.0),
        (850, 1000, 0.5),
        (1000, 1000, 0.01),
        # a fiftieth of a large budget would be 2,000,000
        (125_000, 100_000_000, 0.5),
        (250_000, 100_000_000, 1.0),
    ],
)
def test_the_rate_warms_up_holds_and_decays(seen, budget, share):
    assert pretrain.schedule(seen, budget) == pytest.approx(share)


def test_the_loss_counts_real_tokens_only():
    """Uniform logits over 8: every one of 3 + 1 targets costs ln 8."""

    class Uniform:
        def __call__(self, input_ids, use_cache):
            self.logits = torch.zeros(*input_ids.shape, 8)
            return self

    ids = torch.tensor([[1, 5, 6, 1], [1, 7, 0, 0]])
    loss = pretrain.loss_of(Uniform(), ids, pad_id=0)
    assert loss.item() == pytest.approx(4 * math.log(8))


def test_bits_per_byte_of_an_untrained_uniform_model(tokenizer):
    model = pretrain.new_model(TINY, tokenizer)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    # 'a' is one token and one byte; with the end it is 2 tokens, each of
    # log2(vocabulary) bits.
    bits = pretrain.bits_per_byte(model, tokenizer, ["a", "b"])
    assert bits == pytest.approx(2 * math.log2(len(tokenizer)), rel=1e-6)


def test_a_share_of_the_bodies_is_corrupted_anew_each_epoch():
    table = snippets(200)
    assert pretrain.corrupted(table, 0.0, 0, 1) == list(table["text"])
    first = pretrain.corrupted(table, 0.5, 0, 1)
    changed = [a != b for a, b in zip(first, table["text"], strict=True)]
    assert 70 < sum(changed) < 130
    assert first == pretrain.corrupted(table, 0.5, 0, 1)
    assert first != pretrain.corrupted(table, 0.5, 0, 2)
    starts = zip(first, table["text"], table["body_start"], strict=True)
    assert all(a[:s] == b[:s] for a, b, s in starts)


def test_a_tiny_run_learns_and_repeats_bit_for_bit():
    runs = [list(pretrain.train(snippets(), TINY, seed=0)) for _ in range(2)]
    (first, model, tokenizer), (second, again, _) = runs[0][-1], runs[1][-1]
    assert first.tokens >= TINY.tokens
    untrained = pretrain.bits_per_byte(
        pretrain.new_model(TINY, tokenizer), tokenizer, ["def f0(a):\n"]
    )
    assert first.valid_bits is not None
    assert first.valid_bits < 0.7 * untrained
    assert first == second
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def trained(snippets, config, checkpoints=None):
    """The weights of a whole run, and its measured steps."""
    steps = list(pretrain.train(snippets, config, 0, checkpoints))
    weights = [p.detach().clone() for p in steps[-1][1].parameters()]
    return weights, [step for step, *_ in steps]


KILLED = """
import os, signal, sys
from pathlib import Path
from test_pretrain import RESUMED, snippets
from stylerl.supervised import pretrain

for progress, *_ in pretrain.train(snippets(), RESUMED, 0, Path(sys.argv[1])):
    if progress.step == 11:
        os.kill(os.getpid(), signal.SIGKILL)
"""
RESUMED = replace(TINY, checkpoint_every=4)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    # killed in step 12, it goes on from the checkpoint of step 8; an epoch
    # is two or three batches, so that is in the midst of one
    monkeypatch.setattr(pretrain, "MEASURE_EVERY", 4)
    whole, steps = trained(snippets(), RESUMED)
    tests = Path(__file__).resolve().parent
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": f"{tests}:{tests.parents[1]}",
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
        },
    )
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000004", "000008"
    ]  # fmt: skip
    resumed, rest = trained(snippets(), RESUMED, tmp_path)
    assert rest[0].step == 9  # the child measured at the end alone
    assert rest[-1] == steps[-1]
    for one, other in zip(whole, resumed, strict=True):
        assert torch.equal(one, other)


def test_what_was_measured_before_the_kill_is_told_again(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(pretrain, "MEASURE_EVERY", 4)
    _, steps = trained(snippets(), TINY)
    run = pretrain.train(snippets(), RESUMED, 0, tmp_path)
    for progress, *_ in run:
        if progress.step == 9:
            run.close()
            break
    _, rest = trained(snippets(), RESUMED, tmp_path)
    measured = [step for step in steps if step.valid_bits is not None]
    assert [step for step in rest if step.valid_bits is not None] == measured
    assert [step.step for step in rest[:3]] == [4, 8, 9]


def stopped_after(steps, config, folder):
    """Train until a checkpoint of so many steps is written, and stop."""
    run = pretrain.train(snippets(), config, 0, folder)
    for progress, *_ in run:
        if progress.step == steps + 1:
            run.close()
            return


@pytest.mark.slow
def test_a_checkpoint_from_before_the_decay_serves_another_budget(
    tmp_path, monkeypatch
):
    # one of 400 tokens a step; the rate falls from 5,600 and 7,000 tokens
    monkeypatch.setattr(pretrain, "WARMUP", 50)
    short = replace(RESUMED, tokens=8000)
    long = replace(RESUMED, tokens=10_000)
    whole, _ = trained(snippets(), long)
    stopped_after(4, short, tmp_path)
    resumed, steps = trained(snippets(), long, tmp_path)
    assert steps[0].step == 5
    for one, other in zip(whole, resumed, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("seen", "before", "budget"),
    [
        (71, 100, 200),  # had begun to fall
        (71, 200, 100),  # would have
        (30, 100, 200),  # rose over 2 tokens, and would have over 4
    ],
)
def test_a_budget_with_other_rates_is_refused(seen, before, budget):
    with pytest.raises(DataError, match=f"pretrain.tokens = {before}"):
        pretrain.check_budget(seen, before, budget)


def test_snippets_that_no_context_holds_are_one_clear_error():
    table = snippets()
    table["text"] *= 40
    with pytest.raises(DataError, match="none of 30 .*pretrain.context = 64"):
        next(pretrain.train(table, TINY, 0))


def test_no_held_out_snippets_is_one_clear_error():
    table = snippets()
    with pytest.raises(DataError, match="got 30 and 0"):
        next(pretrain.train(table[table["split"] == "train"], TINY, 0))
