"""`stylerl evaluate`: what it measures is what the stage measures."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import test_evaluate
from bases import write_qwen2

from stylerl import storage
from stylerl.cli import main as cli
from stylerl.config import paths
from stylerl.evaluation import comparison
from stylerl.evaluation.measurement import generations
from stylerl.lm.encoding import load_tokenizer
from stylerl.skill import measure
from tasks import evaluate

log = test_evaluate.log  # the fixture

pytestmark = pytest.mark.slow

SFT, PPO = "artifacts/sft", "artifacts/ppo"
FEW = ["--set", "evaluate.prompts=3", "--set", "evaluate.samples=1"]
NO_SKILL = ["--set", "skill.tests=none"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    """A workspace, and models of elsewhere: other tokens, and broken ones."""
    root = tmp_path_factory.mktemp("evaluate")
    test_evaluate.prepare(root, tokenizer)
    write_qwen2(root / "elsewhere/PPO")  # words of ours as a name
    (root / "empty").mkdir()
    for name, gone in (
        ("no_tokenizer", "tokenizer*"),
        ("no_weights", "*.safetensors"),
        ("no_model", "config.json"),
    ):
        shutil.copytree(root / SFT, root / name)
        for file in (root / name).glob(gone):
            file.unlink()
    (root / "file").touch()
    (root / "damaged.gguf").write_text("GG")
    return root


@pytest.fixture(scope="module")
def found(folder):
    """What the command prints of three models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        before = Path("params.yaml").read_bytes()
        models = [SFT, PPO, "elsewhere/PPO"]
        code = cli.main(["evaluate", "--to", "seen", *models, *NO_SKILL])
        assert code == 0
        assert Path("params.yaml").read_bytes() == before
    return folder / "seen"


@pytest.fixture
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_the_numbers_are_those_of_the_stage(found, inside, log):
    """The same two models, prompts and seeds; the stage has a base and a
    classifier besides, which say nothing of these."""
    evaluate.main()
    theirs = storage.read_json(paths.EVALUATION)

    ours = storage.read_json(found / "ppo/evaluate.json")

    theirs["size"].pop("base_prompts")
    for key in ("size", "sft", "ppo", "human", "gain"):
        assert ours[key] == theirs[key], key
    alone = storage.read_json(found / "metrics.json")["metrics"]
    assert alone["sft"] == ours["sft"] and alone["ppo"] == ours["ppo"]
    gain = comparison.compare(
        storage.read_table(paths.COMPLETIONS),
        storage.read_table(found / "ppo/completions.parquet"),
    )
    assert gain["compliance"] == 0.0


def test_a_model_with_other_tokens_is_measured_in_the_references(
    found, inside
):
    other = storage.read_json(found / "PPO/evaluate.json")
    assert "kl" not in other["ppo"] and "kl" not in other["gain"]
    assert other["sft"]["kl"] == 0
    rows = storage.read_table(found / "PPO/completions.parquet")
    own = rows[rows["model"] == "ppo"]
    tokens = load_tokenizer(SFT)
    assert own["tokens"].tolist() == [
        len(tokens.encode(text, add_special_tokens=False))
        for text in own["completion"]
    ]
    *_, first, last = (found / "evaluation.md").read_text().split("\n| metric")
    assert "- KL to sft: **failed**" in first  # two random models
    assert "KL to sft:" not in last


def test_the_words_name_the_models(found):
    """The reference is called sft here, and the last model PPO."""
    text = (found / "evaluation.md").read_text()
    table = text.splitlines()
    assert table[0].startswith("| model | non-compliance cut % |")
    assert [row.split(" |")[0] for row in table[2:5]] == [
        "| sft", "| ppo", "| PPO",
    ]  # fmt: skip
    assert "| metric | sft | ppo | ppo - sft [95%] |" in text
    assert "| metric | sft | PPO | PPO - sft [95%] |" in text
    assert "SFT" not in text


def test_one_model_is_a_table(inside, capsys):
    assert cli.main(["evaluate", "--to", "one", SFT, *FEW, *NO_SKILL]) == 0
    shown = capsys.readouterr().out
    assert shown == Path("one/evaluation.md").read_text()
    assert [row.split(" |")[0] for row in shown.splitlines()[2:]] == [
        "| sft", "| human",
    ]  # fmt: skip
    assert {path.name for path in Path("one").iterdir()} == {
        "evaluation.md", "metrics.json",
    }  # fmt: skip


def test_a_gguf_file_is_the_model_that_it_holds(inside, monkeypatch):
    """An f32 file rounds nothing, so all that it writes is SFT's; of skill,
    which is not measured here, SFT has one of two problems, the file both."""
    pytest.importorskip("gguf")
    assert cli.main(["export", SFT, "files", "--dtype", "f32"]) == 0
    names = ["sft", "sft-f32.gguf"]
    rows = [
        {"model": name, "problem": problem, "sample": sample}
        for name in names
        for problem in "ab"
        for sample in (measure.GREEDY, 0)
    ]
    tried = pd.DataFrame(rows).assign(compliant=True)
    tried["right"] = (tried["model"] != "sft") | (tried["problem"] == "a")
    monkeypatch.setattr(measure, "finish", lambda *_: (tried, ""))

    models = [SFT, "files/sft-f32.gguf"]
    assert cli.main(["evaluate", "--to", "gguf", *models, *FEW]) == 0

    metrics = storage.read_json(Path("gguf/metrics.json"))["metrics"]
    first, second = (metrics[name] for name in names)
    assert (first.pop("skill"), first.pop("joint")) == (0.5, 0.5)
    assert (second.pop("skill"), second.pop("joint")) == (1, 1)
    del first["skill_greedy"], second["skill_greedy"]
    assert first == second
    pair = storage.read_json(Path("gguf/sft-f32.gguf/evaluate.json"))
    assert (pair["gain"]["skill"], pair["gain"]["compliance"]) == (0.5, 0)
    assert "| 50.0 | 100.0 | +50.0" in Path("gguf/evaluation.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere has no config.json"),
        (["empty"], "empty has no config.json"),
        ([SFT, "no_model"], "no_model has no config.json"),
        ([SFT, "no_tokenizer"], "no_tokenizer"),
        ([SFT, "no_weights"], "no_weights"),
        ([SFT, "--set", "evaluate.samples=0"], "evaluate.samples"),
        ([SFT, "--set", "evaluate.nothing=1"], "evaluate.nothing"),
        ([SFT, "--to", "file"], "file"),
        ([SFT, "none.gguf"], "none.gguf does not exist"),
        (["none.gguf", SFT], "the first model must be a folder"),
        ([SFT, "damaged.gguf"], "must be a GGUF file as `stylerl export`"),
        ([SFT, SFT], "two of artifacts/sft, artifacts/sft would share one"),
    ],
)
def test_an_error_is_one_line_before_anything_is_sampled(
    arguments, words, inside, capsys, monkeypatch
):
    def sample(*_, **__):
        raise AssertionError("sampled")

    monkeypatch.setattr(generations, "complete_prompts", sample)
    assert cli.main(["evaluate", "--to", "bad", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stylerl: ") and words in line
