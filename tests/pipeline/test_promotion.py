"""The gate, case by case, and the alias that it moves in a real store."""

import json
import os
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from test_comparison import evaluation
from test_summary import compliance, metrics

from stylerl import storage
from stylerl.errors import DataError
from stylerl.evaluation import promotion
from stylerl.evaluation.guards import Guard
from stylerl.evaluation.promotion import Decision
from stylerl.pipeline import registry, stage_runs, tracking

GOOD = metrics(gain=compliance(0.1, 0.05, 0.15))
POOR = metrics(gain=compliance(0.1, -0.01, 0.2))
FAR = metrics({"kl": 20.0}, compliance(0.1, 0.05, 0.15))


def lost():
    raise DataError("run 12 has no table")


@pytest.mark.parametrize(
    ("numbers", "champion", "promoted", "words"),
    [
        # the first: over SFT, and every guard
        (GOOD, None, True, "champion: gain over SFT +10.0 [+5.0, +15.0]"),
        (POOR, None, False, "not champion: gain over SFT +10.0 [-1.0, +20.0]"),
        (FAR, None, False, "not champion: KL to SFT "),
        # then over the champion: of a, b, c, d the candidate has all four
        # clean; by prompt the gains over none are 1, 1, 1, 1
        (POOR, evaluation(), True, "over the champion +100.0 [+100.0, +100."),
        # over a, b, c they are 0, 0, 0, 1: a resample holds no d with
        # probability (3/4)^4 > 2.5%
        (GOOD, evaluation(*"abc"), False, "over the champion +25.0 [0.0, "),
        (GOOD, evaluation(*"abcd"), False, "over the champion 0.0 [0.0, 0.0]"),
        (FAR, evaluation(), False, "not champion: KL to SFT"),
        # and what cannot be measured promotes nobody
        (
            GOOD,
            evaluation(basis={"judge": "j2"}),
            False,
            "champion cannot be measured: two runs are compared on the same "
            "prompts, by the same judge; these differ in judge, j2 and j1",
        ),
    ],
)
def test_the_gate(numbers, champion, promoted, words):
    read = None if champion is None else lambda: champion
    decision = promotion.decide(numbers, evaluation(*"abcd"), read)
    assert decision.promoted is promoted
    assert words in decision.text
    assert decision.text in decision.markdown
    assert decision.markdown.count("**failed**") == (0 if promoted else 1)


@pytest.mark.parametrize(
    ("basis", "origin"),
    [
        ({"split": "valid"}, "valid"),
        (
            {"split": "test", "prompt_texts": ["def add(a, b):"]},
            "evaluate.prompt_texts",
        ),
    ],
)
def test_prompts_that_are_not_held_out_promote_nobody(basis, origin):
    candidate = evaluation(*"abcd", basis=basis)
    decision = promotion.decide(GOOD, candidate, None)
    assert decision.text == (
        f"not champion: prompts of {origin}; they must be of test"
    )


def test_a_champion_whose_table_is_lost_keeps_the_alias():
    decision = promotion.decide(GOOD, evaluation(*"abcd"), lost)
    assert not decision.promoted
    assert "run 12 has no table" in decision.text


def test_a_refusal_names_every_line_that_failed():
    held, fallen = Guard("a", True, "1"), Guard("b", False, "2")
    decision = Decision([held, fallen, fallen._replace(name="c")])
    assert decision.text == "not champion: b 2; c 2"
    assert "- a: held, 1\n- b: **failed**, 2" in decision.markdown


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a store and a policy, for the module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("registry")
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        Path("policy").mkdir()
        Path("policy/config.json").write_text("{}")
        yield folder


def judged(table):
    """The id of a run that left this table."""
    storage.write_table(Path(tracking.COMPLETIONS), table)
    with stage_runs.flow_run("evaluate", {}) as run:
        run.log_file(Path(tracking.COMPLETIONS))
    return run.id


def register(digest):
    lineage = {"judge": "j1", "data": "d1"}
    version = registry.register(None, "policy", digest, lineage)
    assert version
    return version


def champion():
    model = tracking.connect().get_registered_model(registry.MODEL)
    return str(model.aliases.get(registry.CHAMPION))


def kept(version):
    """What the store has of a version."""
    return tracking.connect().get_model_version(registry.MODEL, version)


def test_a_policy_is_registered_once_with_its_lineage(folder):
    first, again, other = register("m1"), register("m1"), register("m2")
    assert first == again != other
    assert register("m1") == first
    expected = {"digest": "m1", "folder": "policy", "judge": "j1"}
    assert expected.items() <= kept(first).tags.items()
    assert kept(first).tags["data"] == "d1"
    source = kept(first).source.removeprefix("models:/")
    model = tracking.connect().get_logged_model(source)
    (link,) = json.loads(model.tags["mlflow.modelVersions"])  # on its page
    assert (link["name"], str(link["version"])) == (registry.MODEL, first)
    assert champion() == "None"


def test_the_alias_moves_only_through_the_gate(folder):
    story = [
        # digest, what it wrote, its own numbers -> champion afterwards
        ("p1", evaluation("a"), POOR, None),
        ("p2", evaluation("a"), GOOD, "p2"),
        ("p2", evaluation("a"), POOR, "p2"),  # again: it is already
        ("p3", evaluation(*"ab"), GOOD, "p2"),  # 0, 1, 0, 0: not clear
        ("p4", evaluation(*"abcd"), FAR, "p2"),  # a guard fell
        ("p5", evaluation(*"abcd"), GOOD, "p5"),  # 0, 1, 1, 1: clear
    ]
    reasons: dict[str, str] = {}
    for digest, table, numbers, expected in story:
        version, run = register(digest), judged(table)
        gate = partial(promotion.decide, numbers, table)
        decision = registry.promote(version, run, gate, f"scores of {digest}")
        assert decision
        assert decision.promoted is (expected == digest)
        assert champion() == (register(expected) if expected else "None")
        tags = kept(version).tags
        assert tags["promotion"] == decision.text
        assert tags[registry.EVALUATION] == run
        about = kept(version).description
        assert about.endswith(f"scores of {digest}")
        # a champion that runs again keeps the reason why it became one
        reason = reasons.setdefault(digest, decision.markdown)
        assert about.startswith(reason)
    assert "over SFT" in reasons["p2"] and "the champion" in reasons["p5"]


def test_a_store_that_does_not_answer_promotes_nobody(
    folder, monkeypatch, capsys
):
    os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
    gate = partial(promotion.decide, GOOD, pd.DataFrame())
    assert registry.promote("1", "12", gate) is None
    assert registry.register(None, "policy", "m9", {}) is None
    assert "MLflow: not logged" in capsys.readouterr().err
