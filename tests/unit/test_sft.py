"""Supervised fine-tuning: which texts are learnt, and that they are."""

import dataclasses
import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import (
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from stylerl.config import SFTConfig
from stylerl.errors import DataError
from stylerl.lm import batching
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import load_causal_lm
from stylerl.lm.saving import save_model
from stylerl.supervised import sft

PROMPT = "def add(a, b):\n"
TEXT = PROMPT + "    return a + b\n"
WHOLE = sft.Snippet("", TEXT)


def _labels(train: int = 12, valid: int = 3) -> pd.DataFrame:
    """Compliant rows, each followed by a violating one."""
    rows = []
    for split, count in (("train", train), ("valid", valid)):
        for i in range(count):
            text = f"def add(a, b):\n    return a + {i}\n"
            rows.append((text, len(PROMPT), split, True))
            broken = text.replace(" + ", "+")
            rows.append((broken, len(PROMPT), split, False))
    columns = ["text", "body_start", "split", "compliant"]
    return pd.DataFrame(rows, columns=columns)


def _config(base: Path) -> SFTConfig:
    return SFTConfig(
        lora_rank=0,
        base=str(base),
        batch_size=4,
        epochs=4.0,
        learning_rate=3e-3,
    )


@pytest.fixture(scope="module")
def logged() -> list[int]:
    """The steps of which the tuning below has told."""
    return []


@pytest.fixture(scope="module")
def tuned(llama_folder: Path, logged: list[int]) -> sft.FineTuned:
    """A base that has learnt the labels; do not change it in a test."""
    return sft.fine_tune(
        _labels(),
        _config(llama_folder),
        seed=0,
        log=lambda numbers, step: logged.append(step),
    )


def test_compliant_snippets_keep_the_order_of_the_table() -> None:
    found = sft.compliant_snippets(_labels(2, 1))
    assert found == {
        "train": [
            sft.Snippet(PROMPT, "    return a + 0\n"),
            sft.Snippet(PROMPT, "    return a + 1\n"),
        ],
        "valid": [sft.Snippet(PROMPT, "    return a + 0\n")],
    }


def test_a_whole_file_is_learnt_whole() -> None:
    labels = _labels(1, 1).assign(body_start=-1)
    found = sft.compliant_snippets(labels)
    whole = sft.Snippet("", "def add(a, b):\n    return a + 0\n")
    assert found["valid"] == [whole]


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_split_without_compliant_snippets_is_an_error(
    split: str, llama_folder: Path
) -> None:
    labels = _labels()
    with pytest.raises(DataError, match="and none fits: raise label.snippets"):
        sft.fine_tune(
            labels[labels["split"] != split], _config(llama_folder), seed=0
        )


def test_likelihood_of_a_uniform_model(
    tiny_llama: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    # All weights 0: every one of V tokens has probability 1 / V.  A text of
    # n tokens predicts n + 1 (its eos too), at ln V nats each.
    with torch.no_grad():
        for weight in tiny_llama.parameters():
            weight.zero_()
    # What is given is predicted too, but does not count.
    bodies = [TEXT, "x = 1\n"]
    size = len(TEXT) + 6  # bytes, all ASCII
    predicted = sum(len(tokenizer.encode(body)) + 1 for body in bodies)
    snippets = [sft.Snippet("", TEXT), sft.Snippet(PROMPT, "x = 1\n")]
    found = sft.likelihood(tiny_llama, tokenizer, snippets)
    nats = math.log(len(tokenizer))
    assert found["loss"] == pytest.approx(nats, rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(
        predicted * nats / math.log(2) / size, rel=1e-5
    )


def test_parts_are_tokenised_alone_and_the_prompt_is_given(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    prompt, body = tokenizer.encode(PROMPT), tokenizer.encode("    return a")
    given, learnt = sft.Snippet(PROMPT, "    return a").encode(tokenizer)
    eos = tokenizer.eos_token_id
    assert given == [eos, *prompt]
    assert learnt == [*body, eos]


def test_prompts_are_not_learnt(
    tuned: sft.FineTuned, llama_folder: Path
) -> None:
    tokenizer = load_tokenizer(llama_folder)
    base = load_causal_lm(llama_folder, tokenizer=tokenizer)
    prompt = [sft.Snippet("", PROMPT)]
    before = sft.likelihood(base, tokenizer, prompt)["loss"]
    after = sft.likelihood(tuned.model, tokenizer, prompt)["loss"]
    assert after > 0.8 * before


def test_a_document_begins_and_ends_with_eos(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids = batching.encode_document(tokenizer, TEXT)
    assert ids[0] == ids[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(ids[1:-1]) == TEXT


def test_fine_tuning_learns_the_compliant_texts(
    tuned: sft.FineTuned, logged: list[int]
) -> None:
    before, after = tuned.metrics["valid"].values()
    assert after["loss"] < 0.5 * before["loss"]
    assert tuned.metrics["snippets"] == 12
    assert tuned.metrics["too_long"] == 0
    assert logged == [5, 10]  # 12 snippets x 4 passes / 4 a step


def test_fine_tuning_again_gives_the_same_weights(
    tuned: sft.FineTuned, llama_folder: Path
) -> None:
    again = sft.fine_tune(_labels(), _config(llama_folder), seed=0)
    for a, b in zip(
        tuned.model.parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


def test_what_is_saved_is_what_was_measured(
    tuned: sft.FineTuned, tmp_path: Path
) -> None:
    # Autocast must not stay around the model that training leaves.
    save_model(tuned.model, tuned.tokenizer, tmp_path / "sft")
    tokenizer = load_tokenizer(tmp_path / "sft")
    model = load_causal_lm(tmp_path / "sft", tokenizer=tokenizer)
    found = sft.likelihood(model, tokenizer, [WHOLE])
    held = sft.likelihood(tuned.model, tuned.tokenizer, [WHOLE])
    assert found["loss"] == pytest.approx(held["loss"], rel=1e-6)
    assert sorted(p.suffix for p in (tmp_path / "sft").iterdir()) == [
        ".json",
        ".json",
        ".json",
        ".json",
        ".safetensors",
    ]


def test_a_gpt2_without_pad_token_is_tuned(
    tiny_gpt2: GPT2LMHeadModel,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    # As codeparrot-small is: no pad token of its own.
    bare = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        bos_token="<|eos|>",
        eos_token="<|eos|>",
    )
    save_model(tiny_gpt2, bare, tmp_path / "base")
    tuned = sft.fine_tune(_labels(), _config(tmp_path / "base"), seed=0)
    assert tuned.tokenizer.pad_token_id != tuned.tokenizer.eos_token_id
    before, after = tuned.metrics["valid"].values()
    assert after["loss"] < before["loss"]


def test_texts_over_the_limit_are_left_out(llama_folder: Path) -> None:
    labels = _labels(2, 1)
    long = {
        "text": TEXT + "# " + "word " * 60 + "\n",
        "body_start": len(PROMPT),
        "compliant": True,
    }
    labels = pd.concat(
        [pd.DataFrame([{**long, "split": "train"}]), labels], ignore_index=True
    )
    config = dataclasses.replace(
        _config(llama_folder), max_tokens=60, epochs=1.0
    )
    tuned = sft.fine_tune(labels, config, seed=0)
    assert tuned.metrics["snippets"] == 2
    assert tuned.metrics["too_long"] == 1


def test_a_limit_that_nothing_meets_is_an_error(llama_folder: Path) -> None:
    config = dataclasses.replace(_config(llama_folder), max_tokens=8)
    with pytest.raises(DataError, match="bodies of at most 8;"):
        sft.fine_tune(_labels(), config, seed=0)
