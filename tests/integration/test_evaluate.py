"""Evaluation and report: what they write; same inputs, same bytes."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from conftest import KeptRun, build_llama, write_params
from test_heldout import BODY, CLEAN, snippets
from test_place import each_a_file

from stylerl import storage
from stylerl.config import paths
from stylerl.errors import ModelError
from stylerl.lm.models import load_scorer
from stylerl.lm.saving import save_model
from tasks import evaluate, report

ROOT = Path(__file__).resolve().parents[2]
OUTS = (paths.COMPLETIONS, paths.EVALUATION, paths.RULES, report.REPORT)


@pytest.fixture(scope="module")
def log():
    kept = KeptRun()

    @contextmanager
    def stage_run(stage, params):
        yield kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.stage_runs, "stage_run", stage_run)
        patch.setattr(
            report.stage_runs, "seconds_by_stage", lambda: {"sft": 41.0}
        )
        yield kept


def prepare(folder, tokenizer):
    """A workspace as it stands before the stage, with tiny models."""
    for name, seed in (("base", 0), ("sft", 1), ("ppo", 2)):
        model = build_llama(len(tokenizer), seed=seed)
        save_model(model, tokenizer, folder / "artifacts" / name)
    scorer = load_scorer(folder / "artifacts/sft", tokenizer, new_head=True)
    save_model(scorer, tokenizer, folder / paths.CLASSIFIER)
    rows = [(CLEAN.format(n), BODY, "test") for n in range(8)]
    found, files = each_a_file(snippets(*rows))
    storage.write_table(folder / paths.SNIPPETS, found)
    storage.write_table(folder / paths.FILES, files)
    updates = pd.DataFrame(
        {"update": [1, 2], "objective/kl": [0.0, 20.0], "alarms": ["", "KL!"]}
    )
    storage.write_text(folder / paths.UPDATES, updates.to_csv(index=False))
    unknown = {"problems": 0, "why_not": "no sandbox"}
    storage.write_json(folder / paths.SKILL, unknown)
    shutil.copy(ROOT / "dvc.yaml", folder)
    sizes = {"prompts": 6, "samples": 2, "max_new_tokens": 12}
    write_params({f"evaluate.{k}": n for k, n in sizes.items()}, folder)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, tokenizer, log):
    """A workspace in which both stages have run, as the current directory."""
    folder = tmp_path_factory.mktemp("evaluate")
    prepare(folder, tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        evaluate.main()
        report.main()
        yield folder


def test_the_stages_twice_give_the_same_bytes(workspace, capsys):
    first = [path.read_bytes() for path in OUTS]
    evaluate.main()
    report.main()

    assert [path.read_bytes() for path in OUTS] == first
    text = capsys.readouterr().out
    assert str(report.REPORT) in text


def test_what_the_stage_leaves_behind(workspace, log):
    metrics = storage.read_json(paths.EVALUATION)
    assert set(metrics) == {
        "size", "base", "sft", "ppo", "human",
        "best_of_2", "linter_best_of_2", "ppo_linter_best_of_2",
        "gain", "gain_sft", "gain_best_of", "skill",
    }  # fmt: skip
    completions = storage.read_table(paths.COMPLETIONS)
    counts = completions.groupby("model").size().to_dict()
    assert counts == {
        "base": 12, "sft": 12, "ppo": 12, "human": 6,
        "best_of_2": 6, "linter_best_of_2": 6, "ppo_linter_best_of_2": 6,
    }  # fmt: skip
    assert completions.attrs["judge"] == log.tags["judge"]
    assert completions.attrs["max_new_tokens"] == 12
    rules = pd.read_csv(paths.RULES)
    assert list(rules)[:5] == ["rule", "text", "base", "sft", "ppo"]


def test_what_the_report_says(workspace):
    page = report.REPORT.read_text()
    assert "KL!: first at update 2" in page
    assert page.count("SHA-256") == 5  # snippets, lock and three models
    assert "<dt>time of sft</dt><dd>41 s</dd>" in page
    assert "machine.cpu" in page


def test_what_the_stage_logs(workspace, log):
    assert log.metrics == storage.read_json(paths.EVALUATION)
    assert set(log.files) == {paths.COMPLETIONS, report.REPORT}
    assert len(log.tags["judge"]) == 16
    *others, last = log.models  # the run keeps the scores of the last
    assert last == "ppo" and {"base", "sft", "human"} < {*others}
    assert log.models["sft"]["joint"] is None  # HumanEval was not run


def test_a_stage_that_fails_leaves_nothing(
    workspace, tmp_path, tokenizer, monkeypatch
):
    prepare(tmp_path, tokenizer)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifacts/ppo/model.safetensors").unlink()

    with pytest.raises(ModelError, match="model.safetensors"):
        evaluate.main()

    assert not any(path.exists() for path in OUTS)
