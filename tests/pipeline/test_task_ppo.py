"""The stage `ppo` as a whole, on a tiny model: params in, artifacts out."""

import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from conftest import build_llama, write_params
from test_place import each_a_file

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data.prompts import unread_prompts
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.lm import encoding, models, saving
from stylerl.pipeline import tracking
from stylerl.ppo import factory
from stylerl.reward_models import scorer_training
from tasks import ppo

ROOT = Path(__file__).resolve().parent.parent.parent
BODY = "    return value\n"
SETTINGS = {
    "ppo.updates": 3,
    "ppo.lora_rank": 0,
    "ppo.batch_size": 6,
    "ppo.group_size": 2,
    "ppo.num_minibatches": 2,
    "ppo.max_new_tokens": 8,
    "ppo.prompts": 4,
    "ppo.checkpoint_every": 1,
}


def labels(count=12):
    """Functions, every other one of which is compliant."""
    heads = [f"def f{i}(value):\n" for i in range(count)]
    return pd.DataFrame(
        {
            "id": [f"{i:016x}" for i in range(count)],
            "source_id": [f"{i:016x}" for i in range(count)],
            "text": [head + BODY for head in heads],
            "body_start": [len(head) for head in heads],
            "split": ["train"] * (count - 2) + ["valid"] * 2,
            "compliant": [i % 2 == 0 for i in range(count)],
        }
    )


@pytest.fixture
def workspace(tmp_path, monkeypatch, tokenizer):
    """A folder as the stage finds it, and a function that sets params."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STYLERL_STAGE_KEY", "0123456789abcdef" * 4)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere:")  # refused at once
    model = build_llama(len(tokenizer))
    saving.save_model(model, tokenizer, tmp_path / "artifacts/sft")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    storage.write_table(tmp_path / paths.LABELS, labels())
    found, files = each_a_file(labels())
    storage.write_table(paths.FILTER / "snippets.parquet", found)
    storage.write_table(paths.FILTER / "files.parquet", files)

    def configure(**changes):
        values = {f"ppo.{name}": v for name, v in changes.items()}
        return write_params({**SETTINGS, **values})

    configure()
    return configure


def test_the_stage_writes_what_dvc_yaml_says(
    workspace, tmp_path, monkeypatch, capsys
):
    """A random model's texts do not parse: they are all worth the same, and
    the alarm of that is printed, and a tag of the run."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/ml.db")
    ppo.main()
    tokenizer = encoding.load_tokenizer(tmp_path / "artifacts/ppo")
    models.load_causal_lm(tmp_path / "artifacts/ppo", tokenizer=tokenizer)
    settings = storage.read_json(tmp_path / "artifacts/ppo/config.json")
    assert settings["judge"] == Judge(config.JudgeConfig()).identity
    table = pd.read_csv(tmp_path / "metrics/ppo.csv")
    assert table["update"].tolist() == [1, 2, 3]
    assert {
        "objective/score",
        "objective/kl",
        "judge/compliance",
        "judge/trivial",
        "score/style",
        "response/length",
        "policy/clipfrac",
        "grad_norm",
        "alarms",
    } <= set(table.columns)
    metrics = storage.read_json(tmp_path / "metrics/ppo.json")
    assert metrics["updates"] == 3
    assert metrics["alarms"] == 1  # all scores are the same, three times
    assert metrics["compliance"] == 0.0
    assert not list((tmp_path / "checkpoints/ppo").iterdir())
    said = "update 3: reward collapse: the scores' standard deviation is 0"
    assert said in capsys.readouterr().out
    client = tracking.connect()
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    (run,) = client.search_runs([experiment.experiment_id])
    tag = run.data.tags["alarm: reward collapse"]
    assert tag.startswith(said)
    assert "Look at a few completions" in tag


def test_an_interrupted_stage_goes_on(workspace, tmp_path, monkeypatch):
    """Stopped in update 3 it leaves a checkpoint, and then writes the bytes
    of a stage that ran through."""
    model = "artifacts/ppo/model.safetensors"
    outs = (model, "metrics/ppo.csv", "metrics/ppo.json")

    def written():
        return [(tmp_path / name).read_bytes() for name in outs]

    ppo.main()
    whole = written()
    log = ppo.log_step

    def stop_at_three(run, step, triggered):
        log(run, step, triggered)
        if step.update == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ppo, "log_step", stop_at_three)
    with pytest.raises(KeyboardInterrupt):
        ppo.main()
    assert list((tmp_path / "checkpoints/ppo/0123456789abcdef").iterdir())
    curves = pd.read_csv(tmp_path / "metrics/ppo.csv")  # as training goes
    assert curves["update"].tolist() == [1]
    seen = []
    monkeypatch.setattr(
        ppo, "log_step", lambda _run, step, _triggered: seen.append(step)
    )
    ppo.main()
    assert [step.update for step in seen] == [3]
    assert written() == whole


def test_literal_prompts_are_taken_as_they_are(workspace):
    texts = ["def add(a, b):", "class Person:"]
    assert ppo.make_trainer(workspace(prompt_texts=texts)).prompts == texts


def test_the_linters_charges_have_its_weight(workspace, tmp_path):
    params = workspace(reward={"linter": 2.0})
    text = "\n    y = 1\n    return x +  y\n"
    batch = ["def f(x):"], [text], [True]
    found = ppo.make_trainer(params).sampler.grader(*batch)
    # E222 alone misses 0.55 of the style reward, which has a weight of 2.
    assert [c.amount for c in found.tokens[0]] == [pytest.approx(-1.1)]


def draw(tokenizer, split="train", count=100, room=8):
    policy = build_llama(len(tokenizer))
    settings = config.PPOConfig(max_new_tokens=room, prompts=count)
    found = unread_prompts(labels(), split, seed=0)
    return factory.fitting_prompts(
        found,
        settings,
        policy,
        partial(encoding.encode_prompt, tokenizer),
    )


def test_prompts_are_functions_of_their_split_that_sft_has_not_read(tokenizer):
    """SFT reads the even rows; row 11 is of the validation split."""
    train = [f"def f{i}(value):\n" for i in (1, 3, 5, 7, 9)]
    assert sorted(draw(tokenizer)) == train
    assert draw(tokenizer, "valid") == ["def f11(value):\n"]
    assert len(draw(tokenizer, count=2)) == 2


def test_without_a_prompt_that_fits_it_says_what_to_do(workspace, tokenizer):
    assert draw(tokenizer, room=250) == []
    with pytest.raises(DataError, match=r"raise label\.snippets"):
        ppo.make_trainer(workspace(max_new_tokens=250))


def test_the_parts_of_the_reward_are_logged_by_name(
    workspace, tmp_path, monkeypatch, capsys
):
    """Saved scorers, and a function beside them."""
    scorer = scorer_training.new_scorer(
        config.RewardConfig(base=str(tmp_path / "artifacts/sft")), seed=0
    )
    saving.save_model(*scorer, tmp_path / "artifacts/reward/pairwise")
    saving.save_model(*scorer, tmp_path / "artifacts/reward/classifier")
    (tmp_path / "own_length.py").write_text(
        "def short(prompts, completions):\n"
        "    return [-float(len(text)) for text in completions]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    weights = {
        "pairwise": 0.5,
        "classifier": 0.5,
        "own_length:short": 0.1,
    }
    workspace(updates=1, reward=weights)
    ppo.main()
    table = pd.read_csv(tmp_path / "metrics/ppo.csv")
    styles = ["score/style/pairwise", "score/style/classifier"]
    parts = table[[*styles, "score/own_length:short"]].iloc[0]
    assert all(0 <= parts[name] <= 0.5 for name in styles)
    assert parts["score/own_length:short"] < 0
    assert table["objective/score"][0] == pytest.approx(parts.sum())
