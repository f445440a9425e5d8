"""Loading, saving, pad and eos."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import bases
import pytest
import torch
from conftest import (
    build_gpt2,
    build_llama,
    build_tokenizer,
    files_of_at_most,
)
from safetensors.torch import load_file, save_file
from tokenizers import normalizers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AddedToken,
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    Lfm2Config,
    LlamaConfig,
    MambaConfig,
    PreTrainedConfig,
)

from stylerl.errors import DiskError, ModelError
from stylerl.lm.encoding import encode_code, encode_prompt, load_tokenizer
from stylerl.lm.models import (
    bf16_copy,
    cast_weights,
    check_logits,
    context_limit,
    load_causal_lm,
    load_scorer,
    vocabulary_size,
)
from stylerl.lm.sampling import decode
from stylerl.lm.saving import save_model, tag_with_judge
from stylerl.ppo.policy import Policy
from stylerl.supervised.sft import Snippet

IDS = torch.tensor([[1, 40, 50, 60, 70]])


def test_a_model_that_scales_its_logits_is_refused(tokenizer, tmp_path):
    """Granite divides them; the others' are the embedding of the states."""
    config = GraniteConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        logits_scaling=8.0,
    )
    save_model(GraniteForCausalLM(config), tokenizer, tmp_path / "m")
    with pytest.raises(ModelError, match=r"logits_scaling: 8\.0"):
        load_causal_lm(tmp_path / "m", tokenizer=tokenizer)


CONVOLVES = {"vocab_size": 320, "layer_types": ["conv", "full_attention"]}
RECURS = {"vocab_size": 320, "hidden_size": 32, "num_hidden_layers": 1}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (Lfm2Config(**bases.DECODER, **CONVOLVES), "has conv"),
        (MambaConfig(**RECURS), "a state of its own"),
    ],
)
def test_a_model_that_keeps_more_than_attention_is_refused(
    config, named, tokenizer, tmp_path
):
    """By the trainer, and before it where it is loaded."""
    model = AutoModelForCausalLM.from_config(config)
    with pytest.raises(ModelError, match=f"one of attention, .*{named}"):
        check_logits(model)
    save_model(model, tokenizer, tmp_path / "m")
    with pytest.raises(ModelError, match="attention"):
        load_causal_lm(tmp_path / "m", tokenizer=tokenizer)


def test_a_saved_model_gives_the_same_logits(tiny_lm, tokenizer, tmp_path):
    save_model(tiny_lm, tokenizer, tmp_path / "m")
    again = load_causal_lm(tmp_path / "m", tokenizer=tokenizer)
    assert torch.allclose(again(IDS).logits, tiny_lm(IDS).logits, atol=1e-5)
    assert not again.training


@pytest.mark.parametrize("name", bases.BASES)
def test_a_base_of_the_hub_is_read(name, tmp_path):
    """Text comes back as it was, also one that begins with spaces; pad and
    eos are two tokens with a row each; begun as its documents are."""
    bases.BASES[name](tmp_path / "hub")
    tokenizer = load_tokenizer(tmp_path / "hub")
    model = load_causal_lm(tmp_path / "hub", tokenizer=tokenizer)
    assert model.dtype == torch.float32
    save_model(model, tokenizer, tmp_path / "m")
    first = {"llama": "<s>"}.get(name, bases.END)
    for each in (tokenizer, load_tokenizer(tmp_path / "m")):
        for text in ("    return  x\r\n", "\n\tx = 'é→'  \n", " y"):
            begun = encode_prompt(each, text)
            assert each.convert_ids_to_tokens(begun[0]) == first
            assert each.decode(begun[1:]) == text
            assert each.decode(begun[2:]) == text.removeprefix(
                each.decode(begun[1:2])
            )
        assert each.pad_token_id != each.eos_token_id
        assert each.pad_token_id < vocabulary_size(model)
    Policy(model)


def test_a_tokenizer_that_loses_spaces_is_refused(tmp_path):
    """BERT's kind, beside a decoder."""
    lossy = bases.lossy_tokenizer()
    save_model(build_llama(len(lossy)), lossy, tmp_path / "m")
    with pytest.raises(ModelError, match="white space back.*byte-level"):
        load_causal_lm(
            tmp_path / "m", tokenizer=load_tokenizer(tmp_path / "m")
        )


def test_a_model_is_stored_in_its_type(tokenizer, tmp_path):
    model = build_llama(len(tokenizer))
    cast_weights(model, torch.bfloat16)
    save_model(model, tokenizer, tmp_path / "m")
    stored = load_file(tmp_path / "m" / "model.safetensors")
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}
    assert "lm_head.weight" not in stored, "tied: stored once"
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert load_causal_lm(tmp_path / "m").dtype == torch.float32


class Made(TorchDispatchMode):
    """The sizes of the fp32 tensors that are made inside the block."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        view = function is torch.ops.aten.detach.default
        if getattr(found, "dtype", None) == torch.float32 and not view:
            self.sizes.append(found.numel())
        return found


def test_a_bf16_copy_is_made_without_one_in_fp32(tiny_lm):
    """Weights are rounded, tied ones stay one, buffers stay as they are."""
    weights = {n: w.clone() for n, w in tiny_lm.named_parameters()}
    smallest = min(w.numel() for w in weights.values())
    with Made() as made:
        copied = bf16_copy(tiny_lm)
    assert max(made.sizes, default=0) < smallest  # rotary frequencies
    assert copied.get_output_embeddings().weight is (
        copied.get_input_embeddings().weight
    )
    for name, weight in copied.named_parameters():
        assert weight.dtype == torch.bfloat16 and not weight.requires_grad
        assert torch.equal(weight, weights[name].bfloat16())
    for name, buffer in copied.named_buffers():
        assert torch.equal(buffer, tiny_lm.get_buffer(name))
        assert buffer.dtype == tiny_lm.get_buffer(name).dtype
    for name, weight in tiny_lm.named_parameters():
        assert torch.equal(weight, weights[name]) and weight.requires_grad


def test_a_model_is_signed_by_its_judge(tiny_lm, tokenizer, tmp_path):
    tag_with_judge(tiny_lm, "0123456789abcdef")
    save_model(tiny_lm, tokenizer, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["judge"] == "0123456789abcdef"
    again = load_causal_lm(tmp_path / "m", tokenizer=tokenizer)
    tag_with_judge(again, "fedcba9876543210")
    save_model(again, tokenizer, tmp_path / "n")
    assert (
        '"judge": "fedcba9876543210"'
        in (tmp_path / "n" / "config.json").read_text()
    )


def test_dropout_is_off_whatever_the_config_says(tokenizer, tmp_path):
    """GPT2Config's own default is 0.1 in all three places."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2
    )
    save_model(GPT2LMHeadModel(config), tokenizer, tmp_path / "m")
    head = partial(load_scorer, new_head=True)
    for load in (load_causal_lm, head):
        model = load(tmp_path / "m", tokenizer=tokenizer).train()
        assert torch.equal(model(IDS).logits, model(IDS).logits)


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_an_added_token_gets_the_mean_embedding(tokenizer, tmp_path, build):
    folder = tmp_path / "m"
    own = build_tokenizer()
    model = build(len(own))
    save_model(model, own, folder)
    own.add_special_tokens({"pad_token": "<|new|>"})
    grown = load_causal_lm(folder, tokenizer=own)
    before = model.get_input_embeddings().weight
    after = grown.get_input_embeddings().weight
    assert after.shape[0] == before.shape[0] + 1 == len(own)
    assert torch.equal(after[:-1], before)
    assert torch.allclose(after[-1], before.mean(dim=0))
    assert grown.config.pad_token_id == own.pad_token_id == len(own) - 1
    assert grown.config.eos_token_id == own.eos_token_id


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("artifacts/nowhere", "folder artifacts/nowhere does not exist"),
        ("./nowhere", "does not exist"),
        ("nobody/no-such-model", "from the hub .not reachable"),
        ("~no-such-user/m", "folder ~no-such-user/m does not exist"),
        ("x" * 300, "cannot load xxx"),
    ],
)
def test_a_missing_model_is_one_clear_error(name, message):
    for load in (load_causal_lm, load_tokenizer, load_scorer):
        with pytest.raises(ModelError, match=message):
            load(name)


def test_a_folder_without_weights_says_so(llama_folder, tmp_path):
    (tmp_path / "config.json").write_text(
        (llama_folder / "config.json").read_text()
    )
    with pytest.raises(ModelError, match=r"no file named model\.safetensors"):
        load_causal_lm(tmp_path)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", lambda was: b""),
        ("model.safetensors", lambda was: was[:4]),
        ("model.safetensors", lambda was: was[: len(was) // 2]),
        ("model.safetensors", lambda was: b"\xff" * 8 + was[8:]),
        ("model.safetensors", lambda was: was[:8] + b"{" * (len(was) - 8)),
        ("config.json", lambda was: b""),
        ("config.json", lambda was: b"[]"),
        ("config.json", lambda was: b"{}"),
        ("config.json", lambda was: b'{"model_type": 3}'),
        ("config.json", lambda was: was.replace(b"32", b'"x"')),
        ("config.json", lambda was: was[: len(was) // 2]),
        ("config.json", lambda was: b"\xff\xfe"),
        ("tokenizer.json", lambda was: b""),
        ("tokenizer.json", lambda was: was[: len(was) // 2]),
        ("tokenizer.json", lambda was: b"[]"),
        ("tokenizer_config.json", lambda was: b"[]"),
        ("tokenizer_config.json", lambda was: b"\xff"),
    ],
)
def test_a_damaged_file_is_one_clear_error(
    llama_folder, tmp_path, file, damage
):
    folder = tmp_path / "m"
    shutil.copytree(llama_folder, folder)
    path = folder / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError) as caught:
        load_causal_lm(folder, tokenizer=load_tokenizer(folder))
    assert len(str(caught.value).splitlines()) == 1
    assert str(folder) in str(caught.value)


def without(weights, name):
    return {key: each for key, each in weights.items() if key != name}


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({}, lambda w: without(w, "model.norm.weight"), "as model.norm.weigh"),
        # Not tied, it would be drawn at random.
        ({"tie_word_embeddings": False}, lambda w: w, "as lm_head.weight"),
        ({"num_hidden_layers": 1}, lambda w: w, "9 are missing or others"),
        ({}, lambda w: {k: v * torch.nan for k, v in w.items()}, "hold NaN"),
    ],
)
def test_weights_that_are_not_the_models_are_an_error(
    tokenizer, tmp_path, config, change, message
):
    save_model(build_llama(len(tokenizer)), tokenizer, tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    file = tmp_path / "m" / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})
    with pytest.raises(ModelError, match=message) as caught:
        load_causal_lm(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def test_a_scorer_starts_from_a_language_model(llama_folder):
    tokenizer = load_tokenizer(llama_folder)
    with pytest.raises(ModelError, match="1 are missing"):
        load_scorer(llama_folder, tokenizer=tokenizer)
    scorer = load_scorer(llama_folder, tokenizer=tokenizer, new_head=True)
    assert scorer(IDS).logits.shape == (1, 1)
    assert scorer.config.pad_token_id == tokenizer.pad_token_id


def test_a_failed_save_leaves_the_old_folder(tokenizer, tmp_path):
    folder = tmp_path / "m"
    model = build_llama(len(tokenizer))
    save_model(model, tokenizer, folder)
    before = (folder / "model.safetensors").read_bytes()

    class Broken:
        bos_token_id = eos_token_id = pad_token_id = 1

        def save_pretrained(self, where: Path) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save_model(build_llama(len(tokenizer), seed=1), Broken(), folder)
    assert (folder / "model.safetensors").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


# ---- What other people's models and texts bring. --------------------------


@pytest.mark.parametrize("family", bases.BASES)
def test_text_that_looks_like_a_control_token_is_text(family, tmp_path):
    bases.BASES[family](tmp_path / "hub")
    tokenizer = load_tokenizer(tmp_path / "hub")
    special = {*tokenizer.all_special_ids}
    words = [*tokenizer.all_special_tokens, "<|im_end|>", "</s>", "<unk>"]
    for word in words:
        text = f'    return "{word}"\n    # {word}{word}\n'
        ids = encode_code(tokenizer, text)
        assert not special & {*ids}, word
        assert decode(tokenizer, ids) == text
    _, learnt = Snippet("def f():", f'\n    "{words[0]}"\n').encode(tokenizer)
    assert learnt.count(tokenizer.eos_token_id) == 1
    assert learnt[-1] == tokenizer.eos_token_id


def test_a_control_token_in_a_completion_is_seen(tokenizer):
    ids = [*encode_code(tokenizer, "x"), tokenizer.pad_token_id]
    assert decode(tokenizer, ids) == "x" + tokenizer.pad_token


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.9, "top_p": 0.6},  # as instruct models have it
        {"num_return_sequences": 4},
        {"max_new_tokens": -1},
    ],
)
def test_a_base_whose_sampling_cannot_be_saved_is_saved(
    llama_folder, tokenizer, tmp_path, sampling
):
    shutil.copytree(llama_folder, tmp_path / "m")
    file = tmp_path / "m/generation_config.json"
    file.write_text(json.dumps(sampling))
    model = load_causal_lm(tmp_path / "m", tokenizer=tokenizer)
    save_model(model, tokenizer, tmp_path / "saved")
    kept = json.loads((tmp_path / "saved/generation_config.json").read_text())
    assert kept["eos_token_id"] == tokenizer.eos_token_id
    assert not {*sampling} & {*kept}


def test_a_head_that_a_config_calls_tied_is_kept(tmp_path):
    """A pad token is added, so that embedding and head are resized."""
    tokenizer = build_tokenizer()
    model = build_llama(len(tokenizer))
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_()
    logits = model(IDS).logits
    save_model(model, tokenizer, tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    config["tie_word_embeddings"] = True
    (tmp_path / "m/config.json").write_text(json.dumps(config))
    tokenizer.add_special_tokens({"pad_token": "<|another|>"})
    again = load_causal_lm(tmp_path / "m", tokenizer=tokenizer)
    torch.testing.assert_close(again(IDS).logits[..., :-1], logits)
    save_model(again, tokenizer, tmp_path / "n")
    once_more = load_causal_lm(tmp_path / "n", tokenizer=tokenizer)
    torch.testing.assert_close(once_more(IDS).logits[..., :-1], logits)


def test_a_model_that_cannot_be_saved_leaves_the_one_before(
    llama_folder, tokenizer, tmp_path
):
    folder = shutil.copytree(llama_folder, tmp_path / "m")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    model = load_causal_lm(folder, tokenizer=tokenizer)
    with files_of_at_most(4096), pytest.raises(DiskError, match="ulimit -f"):
        save_model(model, tokenizer, folder)
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert after == before
    assert [*tmp_path.iterdir()] == [folder]


def test_a_link_is_replaced_and_what_it_leads_to_stays(
    llama_folder, tokenizer, tmp_path
):
    for name in ("there", "gone"):
        (tmp_path / name).symlink_to(tmp_path / f"{name}-kept")
    (tmp_path / "there-kept").mkdir()
    model = load_causal_lm(llama_folder, tokenizer=tokenizer)
    for name in ("there", "gone"):
        save_model(model, tokenizer, tmp_path / name)
        assert load_causal_lm(tmp_path / name) is not None
        assert not (tmp_path / name).is_symlink()
    assert [*(tmp_path / "there-kept").iterdir()] == []


@pytest.mark.parametrize("text", ["</s>\n    y", "<tool_call>", "  \t <pad>"])
def test_an_added_token_that_is_not_special_is_text(text):
    """As Phi-3's end of a text, which takes the line end along."""
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(
        [
            AddedToken("</s>", rstrip=True, special=False),
            AddedToken("<tool_call>", special=False),
            AddedToken("\t ", special=False),  # runs of blanks are kept
        ]
    )
    added = {*tokenizer.get_added_vocab().values()}
    ids = encode_code(tokenizer, text)
    assert tokenizer.decode(ids) == text
    blank = tokenizer.convert_tokens_to_ids("\t ")
    assert {*ids} & added <= {blank}
    assert (blank in ids) == ("\t " in text)


def test_an_accent_of_its_own_stays_one():
    """As of Qwen2, whose tokenizer composes characters."""
    tokenizer = build_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    for text in ("caf\u00e9 = 1", "cafe\u0301 = 1"):
        assert tokenizer.decode(encode_code(tokenizer, text)) == text


def test_a_window_limits_a_text_as_positions_do():
    assert context_limit(PreTrainedConfig()) == sys.maxsize
    config = LlamaConfig(max_position_embeddings=512)
    assert context_limit(config) == 512
    config.sliding_window = 16
    assert context_limit(config) == 16
    config.use_sliding_window = False  # as Qwen2's
    assert context_limit(config) == 512
