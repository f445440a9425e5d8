"""Every stage with every kind of base model, in little: tests/bases.py.

GPT-2's stages are those of test_notebook.py.
"""

import errno
import importlib
import json
import shutil
from pathlib import Path

import bases
import pandas as pd
import pytest
import torch
from conftest import write_params
from safetensors.torch import load_file

from stylerl import storage
from stylerl.errors import DiskError
from stylerl.lm import encoding, models
from stylerl.lm.precision import multiplies_bf16

ROOT = Path(__file__).resolve().parents[2]


def run(*stages: str) -> None:
    for stage in stages:
        importlib.import_module(f"tasks.{stage}").main()


def run_without_room(stage: str, after: int) -> None:
    """Run a stage on a disk that is full `after` some files or folders."""
    written = []

    def flush(path: Path) -> None:
        written.append(path)
        if len(written) > after:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_flush", flush)
        run(stage)


def write_corpus(path: Path, files: int) -> None:
    """Functions of `files` files; half of them break a rule."""
    rows = []
    for i in range(files):
        equals = " = " if i % 2 else "="  # E225
        code = (
            f"def area_{i}(width, height):\n"
            f'    """Return the size."""\n'
            f"    result{equals}width * height + {i}\n"
            f"    return result\n"
        )
        rows.append(
            {
                "distribution": f"package{i % 40}",
                "version": "1",
                "licence": "MIT",
                "path": f"code{i}.py",
                "content": code.encode(),
            }
        )
    path.parent.mkdir()
    pd.DataFrame(rows).to_parquet(path, index=False)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose corpus is filtered and labelled."""
    folder = tmp_path_factory.mktemp("bases")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", "nowhere:")  # refused at once
        for name in ("dvc.yaml", "preferences.jsonl"):
            shutil.copy(ROOT / name, folder)
        write_corpus(Path("data/corpus.parquet"), 200)
        write_params(bases.LITTLE)
        for stage in ("filter", "label"):
            with pytest.raises(DiskError, match="is full; make room"):
                run_without_room(stage, after=0)
            run(stage)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen2", "llama", "starcoder2"])
def test_every_stage_takes_the_base(
    name: str, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved is the base's own architecture, in fp32, with a pad that
    is not eos; every completion is text of the tokenizer's own making."""
    shutil.copytree(labelled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere:")  # refused at once
    bases.BASES[name](Path("hub"))
    write_params({**bases.LITTLE, "sft.base": "./hub"})
    for stage in ("sft", "reward", "ppo", "skill", "evaluate", "report"):
        if name == "llama":  # no room at first; for ppo's second checkpoint
            with pytest.raises(DiskError, match="is full; make room"):
                run_without_room(stage, after=int(stage == "ppo"))
            assert not [*tmp_path.rglob("*.partial")]
        run(stage)

    before = json.loads(Path("hub/config.json").read_text())
    after = json.loads(Path("artifacts/ppo/config.json").read_text())
    for key in ("model_type", "architectures", "tie_word_embeddings"):
        assert after.get(key) == before.get(key)
    weights = load_file("artifacts/ppo/model.safetensors")
    # Adapters are merged into frozen weights, which are of the passes' type.
    kind = torch.bfloat16 if multiplies_bf16() else torch.float32
    assert {w.dtype for w in weights.values()} == {kind}
    tokenizer = encoding.load_tokenizer("artifacts/ppo")
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert after["eos_token_id"] == tokenizer.eos_token_id
    assert models.load_causal_lm("artifacts/ppo", tokenizer=tokenizer)
    loss = storage.read_json(Path("metrics/sft.json"))["valid"]
    assert loss["after"]["loss"] < loss["before"]["loss"]
    assert pd.read_csv("metrics/ppo.csv")["update"].tolist() == [1, 2]
    found = storage.read_table(Path("artifacts/evaluate/completions.parquet"))
    assert set(found["model"]) >= {"base", "sft", "ppo"}
    assert found["completion"].str.len().max() > 0
