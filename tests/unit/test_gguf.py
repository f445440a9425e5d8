"""What `stylerl export` writes: weights in llama.cpp's order, the tokenizer.

A forward pass in llama.cpp's conventions, written here, gives transformers'
logits.  What needs the gguf package is skipped where it is missing;
tools/check_gguf.py asks llama.cpp itself.
"""

import json
import sys
from pathlib import Path

import bases
import pytest
import torch
from conftest import build_tokenizer
from test_adapters import adapted
from tokenizers import pre_tokenizers
from torch.nn import functional

from stylerl.cli import main as cli
from stylerl.cli.commands import parser
from stylerl.errors import ModelError
from stylerl.export import gguf_file
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import load_causal_lm
from stylerl.lm.saving import save_model

IDS = torch.tensor([1, 40, 50, 60, 70, 80])


def heads_of(x, count):
    return x.view(len(x), count, -1).transpose(0, 1)  # (H, T, d)


def attend(q, k, v):
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(0, 1).flatten(1)  # (T, H * d)


def turn(x, theta):
    """Rotate the neighbours 2i and 2i + 1 of a head, as llama.cpp does."""
    pairs = x.shape[-1] // 2
    rates = theta ** (-torch.arange(pairs) / pairs)
    angle = torch.arange(x.shape[1])[:, None] * rates  # (T, d/2)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = (
        even * angle.cos() - odd * angle.sin(),
        even * angle.sin() + odd * angle.cos(),
    )
    return torch.stack(turned, dim=-1).flatten(-2)


def llama_logits(w, config):
    def norm(x, name):
        scale = (x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).rsqrt()
        return x * scale * w[f"{name}.weight"]

    def linear(x, name):
        return functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    theta = config.rope_parameters["rope_theta"]
    query, key = config.num_attention_heads, config.num_key_value_heads
    x = w["token_embd.weight"][IDS]
    for n in range(config.num_hidden_layers):
        at = f"blk.{n}"
        y = norm(x, f"{at}.attn_norm")
        q, k, v = (
            heads_of(linear(y, f"{at}.attn_{part}"), count)
            for part, count in (("q", query), ("k", key), ("v", key))
        )
        k, v = (t.repeat_interleave(query // key, 0) for t in (k, v))
        y = attend(turn(q, theta), turn(k, theta), v)
        x = x + linear(y, f"{at}.attn_output")
        y = norm(x, f"{at}.ffn_norm")
        gate = functional.silu(linear(y, f"{at}.ffn_gate"))
        x = x + linear(gate * linear(y, f"{at}.ffn_up"), f"{at}.ffn_down")
    output = w.get("output.weight", w["token_embd.weight"])
    return norm(x, "output_norm") @ output.T


def parts(model):
    """Its weights as GGUF has them, its logits by them, and its own."""
    weights = dict(gguf_file.tensors(model))
    with torch.no_grad():
        found = llama_logits(weights, model.config)
        return weights, found, model(input_ids=IDS[None]).logits[0]


def test_rows_of_a_head_change_places() -> None:
    """Two heads of 4 rows: 0 1 2 3 turns pairs (0, 2) and (1, 3)."""
    rows = torch.arange(8.0)[:, None].repeat(1, 3)
    assert gguf_file.interleaved(rows, 2)[:, 0].tolist() == [
        0, 2, 1, 3,
        4, 6, 5, 7,
    ]  # fmt: skip
    bias = gguf_file.interleaved(torch.arange(8.0), 1)
    assert bias.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_llama_cpps_order_gives_the_same_logits(tiny_llama) -> None:
    """Its output is tied, so the file has none."""
    for vector in tiny_llama.parameters():
        if vector.ndim == 1:  # biases of 0 and norms of 1 would hide a swap
            torch.nn.init.normal_(vector, mean=0.5, std=0.3)
    weights, found, wanted = parts(tiny_llama)
    assert "output.weight" not in weights
    assert torch.allclose(found, wanted, atol=1e-4)


def test_a_base_of_the_hub_gives_the_same_logits(tmp_path) -> None:
    """Untied, four heads on two of keys, in several bf16 files."""
    bases.write_llama(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    model = load_causal_lm(tmp_path, tokenizer=tokenizer)
    weights, found, wanted = parts(model)
    assert len(weights["output.weight"]) == len(tokenizer)
    assert torch.allclose(found, wanted, atol=1e-4)


def test_merged_adapters_leave_as_weights(
    tiny_llama, tokenizer, tmp_path
) -> None:
    """LoRA's W + (alpha / rank) B A, with alpha 4 and rank 2."""
    before = tiny_llama.state_dict()["model.layers.0.mlp.up_proj.weight"]
    before = before.clone()
    policy = adapted(tiny_llama)
    save_model(policy.model, tokenizer, tmp_path / "m")
    held = dict(policy.named_parameters())
    a, b = (
        next(w for n, w in held.items() if f"0.mlp.up_proj.lora_{x}" in n)
        for x in "ab"
    )
    weights, found, wanted = parts(load_causal_lm(tmp_path / "m"))
    up = weights["blk.0.ffn_up.weight"]
    assert torch.allclose(up, before + 2 * b @ a, atol=1e-5)
    assert torch.allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "qwen2"}, "model_type llama; the model has qwen2"),
        ({"hidden_act": "gelu"}, "hidden_act silu"),
        ({}, r"model\.scale\.weight is none"),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
            "rope_type default",
        ),
    ],
)
def test_what_llama_cpp_computes_otherwise_is_refused(
    changes, words, tiny_llama
) -> None:
    for name, value in changes.items():
        setattr(tiny_llama.config, name, value)
    tiny_llama.model.scale = torch.nn.Linear(2, 2)  # a weight of one's own
    with pytest.raises(ModelError, match=words):
        dict(gguf_file.tensors(tiny_llama))


def written(model, tokenizer, folder, kind="bf16"):
    """The fields and the tensors that gguf's own reader finds."""
    gguf = pytest.importorskip("gguf")
    save_model(model, tokenizer, folder / "m")
    path = gguf_file.export(str(folder / "m"), folder / "out", kind)
    reader = gguf.GGUFReader(path)
    assert path.name == ("m.gguf" if kind == "bf16" else f"m-{kind}.gguf")
    fields = {name: f.contents() for name, f in reader.fields.items()}
    return fields, reader.tensors


@pytest.mark.parametrize("kind", ["bf16", "f32"])
def test_the_file_holds_every_weight(
    kind, tiny_llama, tokenizer, tmp_path
) -> None:
    from_file = {"F32": "float32", "BF16": "bfloat16"}
    fields, found = written(tiny_llama, tokenizer, tmp_path, kind)
    wanted = dict(gguf_file.tensors(tiny_llama))
    assert [t.name for t in found] == [*wanted]
    for each in found:
        tensor = wanted[each.name]
        assert each.shape.tolist() == [*tensor.shape][::-1]
        if tensor.ndim == 1:
            assert each.tensor_type.name == "F32"
        dtype = getattr(torch, from_file[each.tensor_type.name])
        data = torch.from_numpy(each.data.copy()).view(dtype)
        assert torch.equal(data.reshape(tensor.shape), tensor.to(dtype))
    assert fields["general.architecture"] == "llama"
    file_type = {"bf16": 32, "f32": 0}  # llama.cpp's own numbers
    assert fields["general.file_type"] == file_type[kind]
    assert fields["llama.block_count"] == 2
    assert fields["llama.attention.head_count"] == 2
    assert fields["llama.context_length"] == 256


# A block of 32 weights has one scale, in f16.  Its largest weight is 127 steps
# of q8_0; 15 steps of q4_1 lie between its least and its greatest.  A weight
# is off by half a step, and by the rounding of what is in f16: 2**-11 of 127
# steps, or of 15 and of the least weight, which is as much again.
@pytest.mark.parametrize(("kind", "worst"), [("q8_0", 0.57), ("q4_1", 0.52)])
def test_a_rounded_weight_is_near(
    kind, worst, tiny_llama, tokenizer, tmp_path
) -> None:
    from gguf import quants

    _, found = written(tiny_llama, tokenizer, tmp_path, kind)
    wanted = dict(gguf_file.tensors(tiny_llama))
    for each in found:
        if wanted[each.name].ndim == 1:
            continue
        blocks = wanted[each.name].reshape(-1, 32)
        if each.name == "token_embd.weight" or kind == "q8_0":
            assert each.tensor_type.name == "Q8_0"
            step, most = blocks.abs().amax(-1, keepdim=True) / 127, 0.57
        else:
            assert each.tensor_type.name == "Q4_1"
            least, greatest = blocks.aminmax(dim=-1, keepdim=True)
            step, most = (greatest - least) / 15, worst
        data = quants.dequantize(each.data, each.tensor_type)
        off = (torch.from_numpy(data).reshape(-1, 32) - blocks).abs()
        assert (off <= most * step).all()


def test_the_file_holds_the_tokenizer(tiny_llama, tokenizer, tmp_path) -> None:
    tiny_llama.resize_token_embeddings(len(tokenizer) + 3)
    fields, _ = written(tiny_llama, tokenizer, tmp_path)
    get = {k.removeprefix("tokenizer.ggml."): v for k, v in fields.items()}
    assert get["model"] == "gpt2"
    assert get["pre"] == "gpt-2"
    assert get["add_bos_token"] is True
    ids = {f"{n}_token_id": get[f"{n}_token_id"] for n in ("bos", "eos")}
    assert ids == {"bos_token_id": 1, "eos_token_id": 1}
    size = len(tokenizer)
    known = tokenizer.convert_ids_to_tokens(range(size))
    assert get["tokens"] == [
        *known,
        *(f"[unused {size + i}]" for i in (0, 1, 2)),
    ]
    # <|pad|> and <|eos|> are control tokens, the last three have no text
    assert get["token_type"] == [3, 3, *[1] * (size - 2), 5, 5, 5]
    assert len(get["merges"]) == size - 256 - 2


@pytest.mark.parametrize(
    ("split", "name"),
    [
        (pre_tokenizers.ByteLevel(add_prefix_space=False), "gpt-2"),
        (
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Digits(individual_digits=True),
                    pre_tokenizers.ByteLevel(add_prefix_space=False),
                ]
            ),
            "starcoder",
        ),
        (pre_tokenizers.ByteLevel(add_prefix_space=True), None),
        (pre_tokenizers.Whitespace(), None),
    ],
)
def test_how_text_is_split_has_llama_cpps_name(split, name) -> None:
    tokenizer = build_tokenizer()
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = split
    found = json.loads(backend.to_str())
    if name:
        assert gguf_file.splitter(found) == name
    else:
        with pytest.raises(ModelError, match="split as GPT-2's or StarCoder"):
            gguf_file.splitter(found)


def test_the_missing_package_is_one_line(
    llama_folder: Path, capsys, monkeypatch, tmp_path
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)  # as if it were not
    arguments = ["export", str(llama_folder), str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == (
        "stylerl: this needs gguf, which is not installed: pip install gguf; "
        "'stylerl[train]' brings what most commands need, "
        "'stylerl[pipeline]' what a run does\n"
    )
    assert not (tmp_path / "out").exists()


def test_the_command_offers_every_kind() -> None:
    top = parser()
    for kind in gguf_file.KINDS:
        given = ["export", "m", "out", "--dtype", kind]
        assert top.parse_args(given).dtype == kind
