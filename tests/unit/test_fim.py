"""Fill-in-the-middle: its tokens, where code is cut, and what is learnt."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bases import sentencepiece_bpe
from conftest import build_tokenizer
from tokenizers import AddedToken
from transformers import (
    CodeLlamaTokenizer,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

from stylerl.cli.complete_command import complete
from stylerl.config import JudgeConfig, SFTConfig
from stylerl.errors import ModelError
from stylerl.judge import Judge
from stylerl.lm.models import load_tokenizer, save_model
from stylerl.supervised import fim, sft

QWEN = fim.KNOWN[0]
PROMPT = "def add(a, b):\n"
BODY = "    return a + b\n"


class Drawn(random.Random):
    """A generator whose sample is given."""

    def __init__(self, *places: int) -> None:
        super().__init__(0)
        self.places = [*places]

    def sample(self, population: Sequence[Any], k: int, **_: Any) -> list[Any]:
        """The given places, which the population must have."""
        assert k == len(self.places) and {*self.places} <= {*population}
        return self.places


def with_tokens(*tokens: str | AddedToken) -> PreTrainedTokenizerFast:
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": [*tokens]})
    return tokenizer


@pytest.mark.parametrize("tokens", fim.KNOWN)
def test_the_tokens_of_each_family_are_found(tokens: fim.Tokens) -> None:
    # In another order than ours, as in a real vocabulary.
    assert fim.find(with_tokens(*sorted(tokens))) == tokens


def test_code_llamas_own_tokenizer_has_them(tmp_path: Path) -> None:
    vocabulary, merges = sentencepiece_bpe()
    LlamaConfig().save_pretrained(tmp_path)
    CodeLlamaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(
        tmp_path
    )
    assert fim.find(load_tokenizer(tmp_path)) == ("▁<PRE>", "▁<SUF>", "▁<MID>")


@pytest.mark.parametrize(
    "tokens",
    [
        (),
        ("<fim_prefix>", "<fim_middle>"),  # one is missing
        ("<fim_prefix>", "<|fim_suffix|>", "▁<MID>"),  # of three families
    ],
)
def test_other_tokenizers_have_none_and_get_qwens(
    tokens: tuple[str, ...],
) -> None:
    tokenizer = with_tokens(*tokens)
    assert fim.find(tokenizer) is None
    before = len(tokenizer)
    missing = [each for each in QWEN if each not in tokens]
    assert fim.find_or_add(tokenizer) == QWEN
    assert fim.find(tokenizer) == QWEN
    assert len(tokenizer) == before + len(missing)
    assert {*tokens, *QWEN} == {*tokenizer.extra_special_tokens}


def test_a_tokenizer_that_has_them_stays_as_it_is() -> None:
    tokenizer = with_tokens(*fim.KNOWN[1])
    before = len(tokenizer)
    assert fim.find_or_add(tokenizer) == fim.KNOWN[1]
    assert len(tokenizer) == before


@pytest.mark.parametrize("side", ["lstrip", "rstrip"])
def test_tokens_that_take_white_space_away_are_refused(side: str) -> None:
    # Indentation is code: some conversions of Code Llama have these set.
    greedy = [AddedToken(each, **{side: True}) for each in QWEN]
    with pytest.raises(ModelError, match="set lstrip and rstrip"):
        fim.find(with_tokens(*greedy))


def test_a_question_is_prefix_suffix_middle() -> None:
    assert fim.ask(QWEN, "a = ", "\nb = 2\n") == (
        "<|fim_prefix|>a = <|fim_suffix|>\nb = 2\n<|fim_middle|>"
    )


@pytest.mark.parametrize("place", ["prefix", "suffix"])
def test_code_that_holds_a_token_is_refused(place: str) -> None:
    parts = {"prefix": "a", "suffix": "b", place: "x = '<|fim_middle|>'"}
    with pytest.raises(ModelError, match=r"must not hold <\|fim_middle\|>"):
        fim.ask(QWEN, **parts)


@pytest.mark.parametrize(
    ("places", "prefix", "suffix", "middle"),
    [
        # The body is abcdef; its places are 0 (before a) to 6 (after f).
        ((1, 4), "a", "ef", "bcd"),
        ((4, 1), "a", "ef", "bcd"),  # drawn in the other order
        ((0, 6), "", "", "abcdef"),
        ((0, 1), "", "bcdef", "a"),
        ((5, 6), "abcde", "", "f"),
    ],
)
def test_a_body_is_cut_at_two_characters_and_its_prompt_is_not(
    places: tuple[int, int], prefix: str, suffix: str, middle: str
) -> None:
    asked = fim.infill(QWEN, "def f():\n", "abcdef", Drawn(*places))
    assert asked == (fim.ask(QWEN, f"def f():\n{prefix}", suffix), middle)


def test_every_cut_is_as_likely_as_any_other() -> None:
    # Of a body of two characters there are three: a|b, ab, b.  Of 300 draws
    # each has 100 on average, with a deviation of sqrt(300 / 3 * 2 / 3) = 8.
    rng = random.Random(0)
    found = Counter(fim.infill(QWEN, "", "ab", rng)[1] for _ in range(300))
    assert {*found} == {"a", "ab", "b"}
    assert all(70 < count < 130 for count in found.values())


def test_a_share_is_asked_and_the_rest_stays() -> None:
    snippets = [sft.Snippet(PROMPT, f"    return {i}\n") for i in range(400)]
    asked = sft.asked_at_a_cursor(snippets, QWEN, 0.25, seed=0)
    kept = [a == b for a, b in zip(asked, snippets, strict=True)]
    # 300 of 400 are kept on average, with a deviation of sqrt(75) = 9.
    assert 265 < sum(kept) < 335
    for (question, middle, _), (prompt, body, _) in zip(
        asked, snippets, strict=True
    ):
        if question != prompt:  # the three parts are the snippet again
            before, after = question.split("<|fim_suffix|>")
            prefix = before.removeprefix("<|fim_prefix|>")
            suffix = after.removesuffix("<|fim_middle|>")
            assert prefix.startswith(prompt) and middle
            assert prefix + middle + suffix == prompt + body


def test_the_cut_depends_on_seed_and_snippet_alone() -> None:
    snippets = [sft.Snippet(PROMPT, f"    return {i}\n") for i in range(20)]
    first = sft.asked_at_a_cursor(snippets, QWEN, 0.5, seed=0)
    assert sft.asked_at_a_cursor(snippets, QWEN, 0.5, seed=0) == first
    assert sft.asked_at_a_cursor(snippets, QWEN, 0.5, seed=1) != first
    assert sft.asked_at_a_cursor(snippets[7:], QWEN, 0.5, 0) == first[7:]


@pytest.mark.parametrize(
    "snippet",
    [
        sft.Snippet(PROMPT, ""),
        sft.Snippet(PROMPT, "    return '<|fim_suffix|>'\n"),
        sft.Snippet("# <|fim_middle|>\n", BODY),
    ],
)
def test_what_cannot_be_cut_is_learnt_as_it_is(snippet: sft.Snippet) -> None:
    assert sft.asked_at_a_cursor([snippet], QWEN, 1.0, seed=0) == [snippet]


def test_only_the_middle_and_its_eos_have_a_loss() -> None:
    tokenizer = build_tokenizer()
    tokens = fim.find_or_add(tokenizer)
    marks = tokenizer.convert_tokens_to_ids([*tokens])
    assert marks == [320, 321, 322]  # after the 320 that it had
    # 4 and 12 characters of the body: "    ", "return a", " + b\n".
    snippet = sft.Snippet(*fim.infill(tokens, PROMPT, BODY, Drawn(4, 12)))
    ids, learnt = snippet.encode(tokenizer)
    prefix, middle, suffix = (
        tokenizer.encode(part)
        for part in (PROMPT + "    ", "return a", " + b\n")
    )
    eos = tokenizer.eos_token_id
    given = [eos, 320, *prefix, 321, *suffix, 322]
    assert ids == [*given, *middle, eos]
    assert learnt == [-100] * len(given) + [*middle, eos]


def _labels() -> pd.DataFrame:
    return pd.DataFrame(
        [
            (f"{PROMPT}    return a + {i}\n", len(PROMPT), split, True)
            for split, count in (("train", 12), ("valid", 3))
            for i in range(count)
        ],
        columns=["text", "body_start", "split", "compliant"],
    )


def _config(base: Path, **changes: Any) -> SFTConfig:
    rate = {"epochs": 4.0, "learning_rate": 3e-3, "batch_size": 4}
    return SFTConfig(base=str(base), lora_rank=0, **(rate | changes))


def test_off_nothing_is_asked_and_no_token_is_added(
    llama_folder: Path,
) -> None:
    tuned = sft.fine_tune(_labels(), _config(llama_folder, epochs=1.0), 0)
    assert len(tuned.tokenizer) == len(load_tokenizer(llama_folder))
    assert {*tuned.metrics} == {"snippets", "too_long", "train_loss", "valid"}


def test_a_tuned_model_fills_in_what_is_missing(
    llama_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(llama_folder, fim_share=0.5)
    tuned = sft.fine_tune(_labels(), config, seed=0)
    for name in ("valid", "valid_fim"):
        before, after = tuned.metrics[name].values()
        assert after["loss"] < 0.8 * before["loss"], name
    save_model(tuned.model, tuned.tokenizer, tmp_path / "sft")

    loaded = load_tokenizer(tmp_path / "sft")
    rows = tuned.model.get_input_embeddings().weight
    assert fim.find(loaded) == QWEN
    assert rows.shape[0] == len(loaded) == 323  # 320, and three
    prefix, suffix, middle = (rows[i] for i in (320, 321, 322))
    assert not prefix.equal(suffix) and not suffix.equal(middle)

    judge = Judge(JudgeConfig())
    base, sources = str(llama_folder), {"SFT": str(tmp_path / "sft")}
    options = {"max_new_tokens": 12, "temperature": 0.0, "seed": 0}
    asked = PROMPT + "    return a", "\n"
    found = complete(
        asked[0], {"base": base, **sources}, judge, options, suffix=asked[1]
    )
    assert [(each.label, each.suffix) for each in found] == [("SFT", "\n")]
    assert "<|fim" not in found[0].completion
    said = capsys.readouterr().err
    assert f"passed over: {base} cannot fill in the middle" in said
    with pytest.raises(ModelError, match=r"sft\.fim_share=0\.5"):
        complete(asked[0], {"base": base}, judge, options, suffix="\n")
