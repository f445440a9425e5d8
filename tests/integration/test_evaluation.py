"""Models at work and the whole evaluation, on tiny models."""

import dataclasses
import math

import pandas as pd
import pytest
import torch
from conftest import build_llama
from test_heldout import BODY, CLEAN, snippets

from stylerl.config import EvaluateConfig
from stylerl.errors import DataError
from stylerl.evaluation.measurement import (
    baselines,
    evaluation,
    generations,
    verdicts,
)
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.evaluation.measurement.heldout import Prompt, literal_prompts
from stylerl.lm import sampling
from stylerl.lm.saving import save_model

CONFIG = EvaluateConfig(prompts=6, samples=2, max_new_tokens=12)


@pytest.fixture(scope="module")
def sources(tokenizer, tmp_path_factory):
    """base, sft and ppo: three tiny models; ppo is sft itself."""
    folder = tmp_path_factory.mktemp("models")
    for name, seed in (("base", 0), ("sft", 1)):
        model = build_llama(len(tokenizer), seed=seed)
        save_model(model, tokenizer, folder / name)
    found = {name: str(folder / name) for name in ("base", "sft")}
    return {**found, "ppo": found["sft"]}


@pytest.fixture(scope="module")
def table():
    """Eight functions of the test split; the last is the longest."""
    return snippets(
        *[(CLEAN.format(n), BODY, "test") for n in range(7)],
        (CLEAN.format(7), BODY * 3, "test"),
    )


@pytest.fixture(scope="module")
def result(sources, table, judge):
    return evaluation.evaluate(sources, table, judge, CONFIG, seed=3)


def test_every_model_answers_the_same_prompts_and_samples(result):
    rows = result.completions
    keys = {
        name: own[["prompt_id", "sample"]].to_numpy().tolist()
        for name, own in rows.groupby("model")
    }

    assert keys["base"] == keys["sft"] == keys["ppo"]
    assert len(keys["ppo"]) == 6 * 2
    assert len(keys["human"]) == 6
    assert result.metrics["size"] == {
        "prompts": 6, "base_prompts": 6, "samples": 2, "validation": 0,
        "literal": 0,
    }  # fmt: skip


def test_the_base_completes_the_first_prompts_alone(
    result, sources, table, judge, monkeypatch
):
    # What SFT gains over it is told by these: as if only they were asked.
    monkeypatch.setattr(evaluation, "BASE_PROMPTS", 2)
    brief = evaluation.evaluate(sources, table, judge, CONFIG, seed=3)
    two = dataclasses.replace(CONFIG, prompts=2)
    alone = evaluation.evaluate(sources, table, judge, two, seed=3).metrics

    counts = brief.completions.groupby("model").size()
    assert (counts["base"], counts["sft"], counts["ppo"]) == (4, 12, 12)
    assert brief.metrics["size"]["base_prompts"] == 2
    assert brief.metrics["gain_sft"] == alone["gain_sft"]
    for name in ("sft", "ppo", "gain"):
        assert brief.metrics[name] == result.metrics[name]


def test_the_same_model_under_the_same_seed_gains_nothing(result):
    # ppo is sft, so all is equal: every difference is 0 and so is the KL.
    # It would not be, had the two drawn from different random streams.
    rows = result.completions.set_index("model")

    assert (
        rows.loc["ppo", "completion"].tolist()
        == rows.loc["sft", "completion"].tolist()
    )
    assert set(result.metrics["gain"].values()) == {0.0}
    assert result.metrics["ppo"]["kl"] == 0.0
    assert result.metrics["ppo"] == result.metrics["sft"]
    base, sft = result.metrics["base"], result.metrics["sft"]
    assert "kl" not in base
    assert base["bits_per_byte"] != sft["bits_per_byte"]


def test_a_model_that_is_called_base_has_kl_where_models_are_compared(
    sources, table, judge
):
    """As in `stylerl evaluate artifacts/sft artifacts/base`."""
    pair = {name: sources[name] for name in ("sft", "base")}
    few = dataclasses.replace(CONFIG, samples=1)

    _, compared = evaluation.evaluate_models(pair, table, judge, few, seed=3)

    assert compared["base"].metrics["ppo"]["kl"] != 0.0


def test_an_evaluation_repeats_itself(result, sources, table, judge):
    again = evaluation.evaluate(sources, table, judge, CONFIG, seed=3)

    assert again.metrics == result.metrics
    pd.testing.assert_frame_equal(again.completions, result.completions)
    pd.testing.assert_frame_equal(again.rules, result.rules)


def test_kl_is_the_mean_log_ratio_of_the_sampled_tokens(sources, monkeypatch):
    # Against a plain forward pass over prompt and sampled tokens, at the
    # sampling temperature; position p predicts the token at p + 1.
    text = "def f(a):\n"
    monkeypatch.setattr(generations, "multiplies_bf16", lambda: False)
    config = EvaluateConfig(samples=1, max_new_tokens=5, temperature=0.7)
    base, sft = (
        generations.load_model(sources[name]) for name in ("base", "sft")
    )
    drawn = sampling.generate(
        *base, [text], max_new_tokens=5, temperature=0.7, seed=0
    )
    (prompt,), (response,) = drawn.prompt_ids, drawn.ids

    def logprob(model):
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + response])).logits[0]
        logs = (logits / 0.7).log_softmax(-1)[len(prompt) - 1 : -1]
        return float(logs[range(len(response)), response].sum())

    rows = generations.complete_prompts(
        "base",
        base,
        literal_prompts([text]),
        reference=sft,
        config=config,
        seed=0,
    )

    row = rows.iloc[0]
    assert row["completion"] == drawn.texts[0]
    assert row["tokens"] == len(response) - drawn.finished[0]
    expected = logprob(base.model) - logprob(sft.model)
    assert row["kl"] == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 0.1


def test_completions_are_judged_with_their_prompts(judge):
    table = pd.DataFrame(
        {
            "model": "sft",
            "prompt_id": ["a", "b", "c", "d"],
            "sample": 0,
            "prompt": "def f(a,b):\n",  # E231 is the prompt's
            "completion": [
                "    return a\n",
                "    return a+b ;\n",
                "    return (\n",
                "    x = a\n    retu",
            ],
            "judged": [
                "    return a\n",
                "    return a+b ;\n",
                "    return (\n",
                "    x = a\n",
            ],
            "finished": [True, True, True, False],
            "tokens": 4,
            "kl": 0.0,
        }
    )

    judged = verdicts.judge_completions(table, judge)

    assert judged["outcome"].tolist() == [
        "compliant",
        "violations",
        "unparsable",
        "unfinished",
    ]
    # E203 before the semicolon and E703; a+b is E226, which is ignored.
    # F841, as x is never used, is the cut's: the line that used it went.
    assert judged["codes"].tolist()[:2] == [[], ["E203", "E703"]]
    assert judged["codes"].tolist()[3] == []
    assert judged["score"].tolist() == [1.0, 0.8, 0.0, 1.0]
    assert judged["statements"].tolist() == [1, 1, 0, 1]
    # The fixer takes the semicolon and the space before it away.
    assert judged["fixed_outcome"].tolist()[:2] == ["compliant"] * 2
    assert judged["reformatted"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert "judged" not in judged


def test_bits_per_byte_of_a_model_that_knows_nothing(tiny_llama, tokenizer):
    # Zero logits give every token log2(V) bits.  "ab\n" is some t tokens
    # and the end token: (t + 1) log2(V) bits over 3 bytes.
    tiny_llama.get_output_embeddings().weight.data.zero_()
    tokens = len(tokenizer.encode("ab\n")) + 1

    bits = generations.bits_per_byte(
        LoadedModel(tiny_llama, tokenizer), ["ab\n"], "test"
    )

    expected = tokens * math.log2(len(tokenizer)) / 3
    assert bits == pytest.approx(expected, rel=1e-5)


def test_texts_that_outgrow_the_model_are_left_out(tiny_llama, tokenizer):
    loaded = LoadedModel(tiny_llama, tokenizer)
    long = "x = 1\n" * 300

    assert generations.bits_per_byte(
        loaded, ["ab\n", long], "test"
    ) == generations.bits_per_byte(loaded, ["ab\n"], "test")
    with pytest.raises(DataError, match="at most 256 tokens; none of 1"):
        generations.bits_per_byte(loaded, [long], "test")
    with pytest.raises(DataError, match="none of 0 is: raise filter.test_sh"):
        generations.bits_per_byte(loaded, [], "test")


def test_samples_of_a_prompt_are_drawn_by_number(sources):
    # The first two are the same whether there is a third or not.
    sft = generations.load_model(sources["sft"])
    prompts = literal_prompts(["def f(a):\n", "def longer(a, b):\n"])

    every, two = (
        generations.complete_prompts(
            "sft",
            sft,
            prompts,
            reference=sft,
            config=dataclasses.replace(CONFIG, samples=samples),
            seed=0,
        )
        for samples in (3, 2)
    )

    first = every[every["sample"] < 2]["completion"].tolist()
    assert two["completion"].tolist() == first
    assert every.groupby("prompt_id")["completion"].nunique().tolist() == [
        3,
        3,
    ]


def test_humans_answer_only_prompts_that_have_an_author(tokenizer):
    prompts = [Prompt("a", "def f():\n", "    x()\n"), Prompt("b", "y", None)]

    rows = baselines.written_by_humans(prompts, tokenizer)

    assert rows["completion"].tolist() == ["    x()\n"]
    assert baselines.written_by_humans(prompts[1:], tokenizer).empty


def test_literal_prompts_are_evaluated_literally(sources, table, judge):
    config = EvaluateConfig(
        prompt_texts=("def add(a, b):", "class Person:"),
        samples=1,
        max_new_tokens=4,
    )

    found = evaluation.evaluate(sources, table, judge, config, seed=0)

    assert set(found.completions["prompt"]) == set(config.prompt_texts)
    assert found.metrics["size"]["literal"] == 1
    assert "human" not in found.metrics
