"""Reward models: numbers by hand, padding, centring, and that they learn."""

import ast
import dataclasses
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from bases import write_distilbert

from stylerl.config import RewardConfig
from stylerl.corrupt.syntax_errors import break_syntax
from stylerl.errors import DataError, ModelError
from stylerl.judge import Judge
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import load_scorer
from stylerl.lm.saving import save_model
from stylerl.reward import scorers
from stylerl.reward.scorers import Scorer, score_texts
from stylerl.reward_models import dataset, pairs, scorer_training
from stylerl.reward_models import model_metrics as reward_metrics
from stylerl.reward_models.dataset import RewardDataset
from stylerl.reward_models.pairs import Preference
from stylerl.supervised import training

TEXTS = [
    "def add(a, b):\n    return a + b\n",
    "x = 1\n",
    "def names(items):\n    return [item.name for item in items]\n",
]


@pytest.fixture
def config(
    llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> RewardConfig:
    monkeypatch.setattr(training, "EPOCHS", 6.0)  # of few texts
    return RewardConfig(
        base=str(llama_folder), batch_size=4, learning_rate=1e-2
    )


@pytest.fixture(scope="session")
def distilbert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder as distilbert-base-uncased is, in little."""
    folder = tmp_path_factory.mktemp("models") / "distilbert"
    write_distilbert(
        folder, TEXTS, max_position_embeddings=64, initializer_range=0.2
    )
    return folder


def _labels(count: int = 32) -> pd.DataFrame:
    """Functions, every other of which ends its line with a semicolon."""
    rows: list[tuple[str, int, str, list[str], bool]] = []
    for i in range(count):
        for split in ("train", "valid"):
            text = f"def {split}_{i}(a):\n    return a + {i}"
            compliant = i % 2 == 0
            text += "\n" if compliant else ";\n"
            rows.append((text, text.index("    "), split, [], compliant))
    return pd.DataFrame(
        rows, columns=["text", "body_start", "split", "rules", "compliant"]
    )


def _pairs(count: int = 16) -> list[Preference]:
    return [
        Preference("E703", f"x = f({i})\n", f"x = f({i});\n")
        for i in range(count)
    ]


# ---- Metrics, by hand ----------------------------------------------------


@pytest.mark.parametrize(
    ("compliant", "scores", "expected"),
    [
        ([1, 1, 0, 0], [4, 3, 2, 1], 1.0),
        ([0, 0, 1, 1], [4, 3, 2, 1], 0.0),
        # Of the pairs (3, 2), (3, 4), (1, 2), (1, 4) one is ranked right.
        ([1, 0, 1, 0], [3, 2, 1, 4], 0.25),
        # (2, 1) is right, (1, 1) is a tie: (1 + 0.5) / 2.
        ([1, 1, 0], [2, 1, 1], 0.75),
        ([1, 1], [2, 1], None),
    ],
)
def test_auroc(
    compliant: list[int], scores: list[float], expected: float | None
) -> None:
    assert reward_metrics.auroc(compliant, scores) == expected


def test_a_pair_is_won_lost_or_a_tie() -> None:
    found = reward_metrics.won([2.0, 1.0, 0.0], [1.0, 1.0, 3.0])
    assert found.tolist() == [1.0, 0.5, 0.0]


def test_shares_by_rule() -> None:
    # E225: one right and one tie, 1.5 / 2.
    table = pd.DataFrame(
        {
            "rule": ["E225", "E225", "W291"],
            "model": [1.0, 0.5, 0.0],
        }
    )
    assert reward_metrics.by_rule(table, ["model"]) == {
        "E225": {"pairs": 2, "model": 0.75},
        "W291": {"pairs": 1, "model": 0.0},
    }


# ---- Pairs ---------------------------------------------------------------


def test_minimal_pairs_are_confirmed_and_balanced(judge: Judge) -> None:
    found = pairs.minimal(_labels(), judge, count=24, seed=0)
    assert len(found) == 24
    for pair in found:
        assert judge.verdict(pair.chosen).compliant
        verdict = judge.verdict(pair.rejected)
        assert verdict.parsed
        assert {v.code for v in verdict.violations} == {pair.rule}
    counts = pd.Series([pair.rule for pair in found]).value_counts()
    assert counts.max() - counts.min() <= 2


def test_preferences_mix_minimal_and_corrupted_pairs(judge: Judge) -> None:
    found = pairs.preferences(_labels(), judge, count=20, seed=0)
    assert sum(bool(pair.rule) for pair in found) == 10
    assert 8 <= sum(not pair.rule for pair in found) <= 10
    for pair in found:
        better, worse = judge.verdict(pair[1]), judge.verdict(pair[2])
        assert better.score > worse.score
    assert found == pairs.preferences(_labels(), judge, count=20, seed=0)


def test_a_name_of_the_snippets_file_is_no_fault_of_a_pairs(judge: Judge):
    """Alone, each text breaks F821 too: `size` is its module's."""
    labels = _labels(8)
    labels["text"] = labels["text"].str.replace("a +", "size +")
    found = pairs.minimal(labels, judge, count=8, seed=0)
    assert len(found) == 8
    for pair in found:
        broken = {v.code for v in judge.verdict(pair.rejected).violations}
        assert broken == {pair.rule, "F821"}


def test_corrupted_rows_are_no_source_of_pairs(judge: Judge) -> None:
    labels = _labels(4)
    labels["rules"] = [["E703"]] * len(labels)
    assert not pairs.preferences(labels, judge, 10, seed=0)


def test_unparsable_pairs_do_not_parse(
    judge: Judge, rng: random.Random
) -> None:
    found = pairs.unparsable(_labels(16), judge, 12, rng)
    assert 10 <= len(found) <= 12
    assert len({pair.chosen for pair in found}) == len(found)
    for pair in found:
        assert judge.verdict(pair.chosen).compliant
        assert not judge.verdict(pair.rejected).parsed
        head = pair.chosen.splitlines()[0]
        assert pair.rejected.startswith(head)
        assert pair.rule == "E999"


@pytest.mark.parametrize("start", [-1, 0, 9])
def test_break_syntax_keeps_what_is_before_the_body(start: int) -> None:
    text, rng = "def f(a):\n    return [a]\n", random.Random(0)
    found = {break_syntax(text, start, rng) for _ in range(50)}
    assert len(found) > 10
    for changed in found - {None}:
        assert changed is not None
        assert changed.startswith(text[: max(start, 0)])
        with pytest.raises(SyntaxError):
            ast.parse(changed)


# ---- Reward dataset -------------------------------------------------------


def test_what_is_learnt_is_found_and_broken(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "HELD_OUT", 8)
    labels = _labels(40)
    config = RewardConfig(labels=30, pairs=30)
    learnt = dataset.train_set(labels, judge, config, seed=0)
    unparsable = [not judge.verdict(t).parsed for t in learnt.labels["text"]]
    assert 2 <= sum(unparsable) <= 3  # 0.1 of 30, some confirmed by luck only
    assert not learnt.labels["compliant"][unparsable].any()
    assert len(learnt.labels) == 30
    assert not learnt.labels["text"].str.contains("valid").any()
    rules = [pair.rule for pair in learnt.pairs]
    assert 2 <= rules.count("E999") <= 3
    eval_set = dataset.eval_set(labels, judge, seed=0)
    assert len(eval_set.labels) == 8
    rules = [pair.rule for pair in eval_set.pairs]
    assert (len(rules) - rules.count("E999"), rules.count("E999")) == (8, 2)


# ---- The scorer ----------------------------------------------------------


def test_the_head_is_drawn_as_published(config: RewardConfig) -> None:
    # Standard deviation 1 / sqrt(33) = 0.174 for the 32 weights; the
    # standard error of that estimate is 0.174 / sqrt(64) = 0.022.
    weight = _head(scorer_training.new_scorer(config, seed=0))
    assert weight.shape == (1, 32)
    assert weight.std().item() == pytest.approx(0.174, abs=3 * 0.022)
    assert weight.mean().item() == pytest.approx(0, abs=3 * 0.174 / 32**0.5)
    again, other = (
        _head(scorer_training.new_scorer(config, seed)) for seed in (0, 1)
    )
    assert torch.equal(weight, again)
    assert not torch.equal(weight, other)


@pytest.mark.parametrize("base", ["llama_folder", "distilbert_folder"])
def test_a_score_does_not_depend_on_the_padding(
    base: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(base)
    scorer = scorer_training.new_scorer(RewardConfig(base=str(folder)), seed=0)
    assert scorer.tokenizer.pad_token_id != scorer.tokenizer.eos_token_id
    together = score_texts(*scorer, TEXTS, batch_size=3)
    alone = [score_texts(*scorer, [text])[0] for text in TEXTS]
    assert together == pytest.approx(alone, abs=1e-5)
    assert len(set(together.round(3))) == 3
    turned = score_texts(*scorer, TEXTS[::-1], batch_size=2)[::-1]
    assert turned == pytest.approx(together, abs=1e-5)


@pytest.mark.parametrize("base", ["llama_folder", "distilbert_folder"])
def test_a_scorer_is_the_first_layers_of_its_base(
    base: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    config = RewardConfig(base=str(request.getfixturevalue(base)))
    whole: Any = scorer_training.new_scorer(config, seed=0).model
    assert whole.config.num_hidden_layers > 1
    monkeypatch.setattr(scorer_training, "LAYERS", 1)
    scorer = scorer_training.new_scorer(config, seed=0)
    first: Any = scorer.model

    ids = torch.tensor([[5, 6, 7]])
    states = whole.base_model(ids, output_hidden_states=True).hidden_states
    last = getattr(whole.base_model, "norm", torch.nn.Identity())
    found = first.base_model(ids).last_hidden_state
    assert torch.equal(found, last(states[1]))

    save_model(*scorer, tmp_path / "scorer")
    loaded = load_scorer(tmp_path / "scorer", tokenizer=scorer.tokenizer)
    again = score_texts(loaded, scorer.tokenizer, TEXTS)
    assert again == pytest.approx(score_texts(*scorer, TEXTS), abs=1e-6)


def test_one_list_of_layers_is_cut_and_none_is_an_error(
    config: RewardConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = load_scorer(
        config.base, load_tokenizer(config.base), new_head=True
    )
    # After the layers, another list of as many.
    depth = model.config.num_hidden_layers
    model.model.others = torch.nn.ModuleList(
        [torch.nn.Identity() for _ in range(depth)]
    )
    monkeypatch.setattr(scorer_training, "LAYERS", 1)
    monkeypatch.setattr(scorer_training, "load_scorer", lambda *_, **__: model)
    scorer_training.new_scorer(config, seed=0)
    assert (len(model.model.layers), len(model.model.others)) == (1, depth)
    model.config.num_hidden_layers = 99
    with pytest.raises(ModelError, match="has 99, and no list of them to cut"):
        scorer_training.new_scorer(config, seed=0)


@pytest.fixture
def distilbert(distilbert_folder: Path) -> Scorer:
    config = RewardConfig(base=str(distilbert_folder))
    return scorer_training.new_scorer(config, seed=0)


def test_every_dropout_is_off(distilbert: Scorer) -> None:
    scorer = distilbert
    scorer.model.train()
    modules = scorer.model.modules()
    rates = [m.p for m in modules if isinstance(m, torch.nn.Dropout)]
    assert rates
    assert not any(rates)


def test_a_text_over_the_context_is_cut_and_ended(distilbert: Scorer) -> None:
    scorer = distilbert
    long = "x = 1\n" * 100  # 64 positions at most
    assert np.isfinite(score_texts(*scorer, [long])).all()
    (ids,) = scorers.encode_texts(scorer.tokenizer, [long], limit=10)
    assert len(ids) == 10
    assert ids[0] == scorer.tokenizer.cls_token_id
    assert ids[-1] == scorer.tokenizer.sep_token_id


def test_centring_makes_the_mean_of_references_0(
    config: RewardConfig, tmp_path: Path
) -> None:
    scorer = scorer_training.new_scorer(config, seed=0)
    raw = score_texts(*scorer, TEXTS)
    scorer_training.centre(scorer, TEXTS, batch_size=2)
    centred = score_texts(*scorer, TEXTS)
    assert centred.mean() == pytest.approx(0, abs=1e-6)
    assert raw - centred == pytest.approx(np.full(3, raw.mean()), abs=1e-6)
    scorer_training.centre(
        scorer, TEXTS, batch_size=2
    )  # again changes nothing
    assert score_texts(*scorer, TEXTS) == pytest.approx(centred, abs=1e-6)
    save_model(*scorer, tmp_path / "pairwise")
    tokenizer = load_tokenizer(tmp_path / "pairwise")
    loaded = load_scorer(tmp_path / "pairwise", tokenizer=tokenizer)
    found = score_texts(loaded, tokenizer, TEXTS)
    assert found == pytest.approx(centred, abs=1e-6)


# ---- Training ------------------------------------------------------------


@pytest.mark.parametrize("base", ["llama_folder", "distilbert_folder"])
def test_the_classifier_learns_a_rule(
    base: str,
    config: RewardConfig,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    folder = str(request.getfixturevalue(base))
    labels, held_out = (
        _labels()[_labels()["split"] == split] for split in ("train", "valid")
    )
    scorer = scorer_training.train_classifier(
        labels, dataclasses.replace(config, base=folder), seed=0
    )
    texts = held_out["text"].tolist()
    found = score_texts(*scorer, texts)
    assert ((found > 0) & (found < 1)).all()
    assert ((found > 0.5) == held_out["compliant"]).all()
    save_model(*scorer, tmp_path / "classifier")
    loaded = scorers.load(tmp_path / "classifier", torch.device("cpu"))
    assert score_texts(*loaded, texts) == pytest.approx(
        found, abs=0.02
    )  # weights may be bf16


@pytest.mark.parametrize("base", ["llama_folder", "distilbert_folder"])
def test_the_pairwise_model_learns_a_rule(
    base: str, config: RewardConfig, request: pytest.FixtureRequest
) -> None:
    folder = str(request.getfixturevalue(base))
    learnt = _pairs()
    scorer = scorer_training.train_pairwise(
        learnt,
        dataclasses.replace(config, base=folder),
        seed=0,
    )
    better = score_texts(*scorer, [f"y = f({i})\n" for i in range(9)])
    worse = score_texts(*scorer, [f"y = f({i});\n" for i in range(9)])
    assert (better > worse).all()
    references = score_texts(*scorer, [pair.chosen for pair in learnt])
    assert references.mean() == pytest.approx(0, abs=1e-5)


def test_a_margin_asks_for_a_larger_difference(config: RewardConfig) -> None:
    def gap(margin: float) -> float:
        learnt = [pair._replace(margin=margin) for pair in _pairs()]
        scorer = scorer_training.train_pairwise(learnt, config, seed=0)
        better = score_texts(*scorer, [pair.chosen for pair in learnt])
        worse = score_texts(*scorer, [pair.rejected for pair in learnt])
        return float((better - worse).mean())

    # Both start from the same head; where sigmoid(gap) is satisfied,
    # sigmoid(gap - 3) still pulls.
    assert gap(3.0) > gap(0.0) + 0.5


@pytest.mark.parametrize("kind", ["classifier", "pairwise"])
def test_a_step_in_parts_is_the_same_step(
    kind: str, config: RewardConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Texts of one length, so that the order is the only thing drawn.
    monkeypatch.setattr(training, "multiplies_bf16", lambda: False)
    monkeypatch.setattr(training, "EPOCHS", 2.0)
    config = dataclasses.replace(config, batch_size=8)
    labels, learnt = _labels(16), _pairs(16)
    found = []
    for part in (8, 2):
        monkeypatch.setattr(training, "PART", part)
        losses: list[float] = []

        def log(
            numbers: Mapping[str, float], step: int, to: list[float] = losses
        ) -> None:
            to.append(numbers["loss"])

        scorer = (
            scorer_training.train_classifier(labels, config, 0, log)
            if kind == "classifier"
            else scorer_training.train_pairwise(learnt * 2, config, 0, log)
        )
        found.append([*losses, *score_texts(*scorer, TEXTS)])
    assert losses
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_margin_and_centring_are_in_the_loss(
    config: RewardConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Equal texts have equal rewards r, so that the loss of a pair is
    # log(1 + exp(m)) + c (2 r)^2.  One step of a rate of almost nothing:
    # m = 1 gives 1.3133; m = 0 and c = 3 the rest.
    monkeypatch.setattr(training, "multiplies_bf16", lambda: False)
    text = TEXTS[0]
    pair = Preference("", text, text, margin=1.0)
    losses = []

    def log(numbers: Mapping[str, float], step: int) -> None:
        losses.append(numbers["loss"])

    monkeypatch.setattr(training, "EPOCHS", 5.0)
    still = dataclasses.replace(config, learning_rate=1e-12)
    monkeypatch.setattr(scorer_training, "PULL", 0.0)
    scorer_training.train_pairwise([pair] * 4, still, 0, log)
    monkeypatch.setattr(scorer_training, "PULL", 3.0)
    plain = pair._replace(margin=0.0)
    scorer = scorer_training.train_pairwise([plain] * 4, still, 0, log)
    raw = scorer.model.config.reward_centre  # the text's own reward
    expected = [math.log(1 + math.e), math.log(2) + 3 * (2 * raw) ** 2]
    assert losses == pytest.approx(expected, rel=1e-4)


def test_training_again_gives_the_same_scores(config: RewardConfig) -> None:
    first, second = (
        scorer_training.train_classifier(_labels(8), config, seed=3)
        for _ in range(2)
    )
    assert (score_texts(*first, TEXTS) == score_texts(*second, TEXTS)).all()


def _eval_set() -> RewardDataset:
    labels = _labels(4)
    broken = Preference("E999", "x = f(1)\n", "x = f(1\n")
    return RewardDataset(
        labels[labels["split"] == "valid"], [*_pairs(3), broken]
    )


def test_measure(config: RewardConfig) -> None:
    # Untrained models on a table whose counts are known.
    eval_set = _eval_set()
    classifier = scorer_training.new_scorer(config, seed=0)
    classifier.model.config.problem_type = scorers.CLASSIFIES
    pairwise = scorer_training.new_scorer(config, seed=1)
    metrics = reward_metrics.measure(
        classifier, pairwise, eval_set, batch_size=2
    )
    assert metrics["held_out"] == {
        "labels": 4,
        "compliance": 0.5,
        "pairs": 3,
        "broken": 1,
    }
    rule, model = metrics["rules"]["E703"], metrics["pairwise"]
    assert rule["pairs"] == 3
    assert rule["pairwise"] == pytest.approx(model["pairs_right"])
    assert metrics["rules"]["E999"]["pairwise"] == model["broken_right"]
    labels = eval_set.labels
    scores = score_texts(*pairwise, labels["text"].tolist())
    auroc = reward_metrics.auroc(labels["compliant"], scores)
    assert model["auroc"] == pytest.approx(auroc, abs=1e-6)


def test_without_pairs_there_is_no_share(config: RewardConfig) -> None:
    eval_set = _eval_set()._replace(pairs=[])
    pairwise = scorer_training.new_scorer(config, seed=1)
    model = reward_metrics.measure(pairwise, pairwise, eval_set, batch_size=2)[
        "pairwise"
    ]
    assert model["pairs_right"] is None
    assert model["broken_right"] is None


def test_without_two_kinds_of_labels_or_pairs_nothing_is_learnt(
    config: RewardConfig,
) -> None:
    labels = _labels(4).assign(compliant=True)
    with pytest.raises(DataError, match="8 compliant of 8"):
        scorer_training.train_classifier(labels, config, seed=0)
    with pytest.raises(DataError, match="pairs"):
        scorer_training.train_pairwise([], config, seed=0)


def _head(scorer: Scorer) -> torch.Tensor:
    (weight,) = (
        weight
        for name, weight in scorer.model.named_parameters()
        if name == "score.weight"
    )
    return weight
