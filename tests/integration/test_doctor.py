"""Preflight checks: what is wrong is found, and the remedy said."""

import dataclasses
import socket

import pandas as pd
import pytest
import torch
from conftest import build_gpt2, build_llama
from test_place import each_a_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from stylerl import config, storage
from stylerl.cli import doctor, model_checks, rehearsal
from stylerl.cli.findings import Finding, Status, render
from stylerl.cli.rehearsal import Rehearsal
from stylerl.config import Params, PPOConfig
from stylerl.lm.models import save_model
from stylerl.ppo import memory
from stylerl.ppo.memory import Shape


def corpus(folder, rows, said):
    folder.mkdir()
    table = pd.DataFrame({"path": [str(n) for n in range(rows)]})
    storage.write_table(folder / "corpus.parquet", table)
    storage.write_json(folder / "manifest.json", {"files": said})
    return folder


def test_data_as_its_manifest_says(tmp_path):
    found = doctor.check_data(corpus(tmp_path / "data", 3, 3))

    assert (found.status, found.detail[:7]) == (Status.OK, "3 files")


@pytest.mark.parametrize(
    ("make", "detail", "remedy"),
    [
        (lambda data: None, "does not exist", "stylerl collect"),
        (lambda data: corpus(data, 3, 4), "holds 3 files", "rm -r data"),
        (
            lambda data: (corpus(data, 3, 3) / "corpus.parquet").write_bytes(
                b"cut"
            ),
            "",
            "stylerl collect",
        ),
    ],
    ids=["absent", "other files", "broken"],
)
def test_data_that_is_not_right(make, detail, remedy, tmp_path):
    make(tmp_path / "data")

    found = doctor.check_data(tmp_path / "data")

    assert found.status is Status.FAIL
    assert detail in found.detail
    assert remedy in found.remedy


def test_parameters(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(config.render(Params()))
    assert doctor.check_parameters(path).status is Status.OK

    path.write_text("ppo:\n  gamma: 2\n")
    found = doctor.check_parameters(path)
    assert found.status is Status.FAIL
    assert "ppo.gamma must be at most 1" in found.detail


def test_a_port_that_is_taken_is_a_warning():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        found = doctor.check_port(port, "MLflow UI")
    free = doctor.check_port(port, "MLflow UI")

    assert (found.status, free.status) == (Status.WARN, Status.OK)
    assert "MLflow UI would listen here" in found.detail


def test_disk(tmp_path):
    assert doctor.check_disk(tmp_path, needed=1e-6).status is Status.OK
    assert doctor.check_disk(tmp_path, needed=1e9).status is Status.FAIL


def test_packages_are_as_the_project_asks():
    assert doctor.check_packages().status is Status.OK


def test_a_package_out_of_bounds_is_named(monkeypatch):
    asked = ["rich>=999", "no-such-package", 'torch; python_version < "3"']
    monkeypatch.setattr(
        doctor.importlib.metadata, "requires", lambda name: asked
    )

    found = doctor.check_packages()

    assert found.status is Status.FAIL
    assert "rich>=999 (found 1" in found.detail
    assert "no-such-package (found none)" in found.detail
    assert "torch" not in found.detail


def test_an_extra_that_is_not_installed_fails_only_what_needs_it(monkeypatch):
    asked = [
        "rich>=1",
        'no-such-package; extra == "pipeline"',
        'rich>=2; extra == "lora"',
        'rich>=999; extra == "dev"',
    ]
    monkeypatch.setattr(
        doctor.importlib.metadata, "requires", lambda name: asked
    )

    base = doctor.check_packages()
    assert base.status is Status.OK
    assert "with lora, cluster" in base.detail  # cluster asks for nothing
    assert "not installed: stylerl[pipeline]" in base.detail

    checkout = doctor.check_packages(needed="pipeline")
    assert checkout.status is Status.FAIL
    assert checkout.detail == "no-such-package (found none)"


def test_without_git_there_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)

    assert doctor.check_git().status is Status.WARN


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_a_good_model_passes(build, tokenizer, tmp_path):
    folder = tmp_path / "m"
    save_model(build(len(tokenizer)), tokenizer, folder)

    for check in (
        model_checks.check_model,
        model_checks.check_tokenizer,
        model_checks.check_attention,
    ):
        found = check(str(folder))
        assert found.status is Status.OK, found


def test_a_missing_model_says_how_to_get_it(tmp_path):
    found = model_checks.check_model(str(tmp_path / "absent"))

    assert found.status is Status.FAIL
    assert "`dvc repro base` makes artifacts/base" in found.remedy


def test_a_tokenizer_that_loses_whitespace_is_refused(tmp_path):
    # Lower case and single blanks, as an uncased WordPiece has it.
    vocabulary = {"[UNK]": 0, "[EOS]": 1, "[PAD]": 2, "return": 3}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="[EOS]", pad_token="[PAD]"
    ).save_pretrained(tmp_path)
    storage.write_json(tmp_path / "config.json", {"model_type": "gpt2"})

    found = model_checks.check_tokenizer(str(tmp_path))

    assert found.status is Status.FAIL
    assert "byte-level" in found.remedy


def test_attention_that_differs_is_found(llama_folder, monkeypatch):
    real = model_checks.models.load_causal_lm

    def load(name, tokenizer, attention):
        model = real(name, tokenizer=tokenizer, attention=attention)
        if attention == "eager":
            model.get_input_embeddings().weight.data.mul_(1.5)
        return model

    monkeypatch.setattr(model_checks.models, "load_causal_lm", load)

    found = model_checks.check_attention(str(llama_folder))

    assert found.status is Status.FAIL
    assert "differ by" in found.detail


GOOD = Rehearsal(ratio=1e-6, padding=1e-5, alike=True, ended=0.9, spread=0.3)


def rehearsed(folder, **changes):
    settings = {f"ppo.{name}": value for name, value in changes.items()}
    params = config.override(
        Params(), {"sft.base": str(folder / "base"), **settings}
    )
    return {
        f.check: f for f in model_checks.check_first_update(folder, params)
    }


def test_a_rehearsal_of_a_good_model(tmp_path, tokenizer):
    save_model(build_gpt2(len(tokenizer)), tokenizer, tmp_path / "base")
    found = rehearsed(tmp_path, max_new_tokens=24)
    assert found["ratio"].status is Status.OK
    assert found["padding"].status is Status.OK
    assert "of 16 samples end within 24 tokens" in found["endings"].detail
    assert found["endings"].status is Status.WARN  # it is random
    assert "standard deviation of 0." in found["reward"].detail


def test_the_sft_model_is_rehearsed_where_there_is_one(tmp_path, tokenizer):
    model = build_llama(len(tokenizer))
    save_model(model, tokenizer, tmp_path / "artifacts/sft")
    found = rehearsed(tmp_path, max_new_tokens=24, stop_strings=[*"aeiou "])
    assert found["endings"].status is Status.OK


def test_what_a_baseline_could_explain_is_measured_on_sft(tmp_path, tokenizer):
    params = config.override(
        Params(), {"ppo.max_new_tokens": 8, "ppo.reward": {"linter": 1.0}}
    )
    before = model_checks.check_baseline(tmp_path, params)
    assert before.status is Status.OK
    assert "not known yet" in before.detail

    model = build_llama(len(tokenizer))
    save_model(model, tokenizer, tmp_path / "artifacts/sft")
    heads = [f"def f{i}(value):\n" for i in range(3)]
    labels = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "source_id": ["a", "b", "c"],
            "text": [f"{head}    return value\n" for head in heads],
            "body_start": [len(head) for head in heads],
            "split": "train",
            "compliant": True,
        }
    )
    storage.write_table(tmp_path / "artifacts/label/labels.parquet", labels)
    for name, table in zip(
        ("snippets", "files"), each_a_file(labels), strict=True
    ):
        storage.write_table(
            tmp_path / f"artifacts/filter/{name}.parquet", table
        )

    found = model_checks.check_baseline(tmp_path, params)

    assert found.status is Status.OK
    assert found.detail.startswith("group; share of the variance between")
    assert "3 prompts x 4; for the reward " in found.detail


def test_a_model_with_too_short_a_context_is_one_finding(llama_folder):
    found = rehearsed(llama_folder.parent, max_new_tokens=250)
    assert list(found) == ["rehearsal"]
    assert found["rehearsal"].status is Status.FAIL
    assert "256 positions" in found["rehearsal"].detail


@pytest.mark.parametrize(
    ("changes", "check", "status", "remedy"),
    [
        ({"ratio": 0.01}, "ratio", Status.FAIL, "dropout"),
        ({"ratio": float("nan")}, "ratio", Status.FAIL, "dropout"),
        ({"padding": 0.01}, "padding", Status.FAIL, "attention_mask"),
        ({"alike": False}, "padding", Status.FAIL, "position_ids"),
        ({"ended": 0.49}, "endings", Status.WARN, "ppo.max_new_tokens"),
        ({"spread": 0.009}, "reward", Status.WARN, "ppo.temperature"),
    ],
)
def test_what_a_rehearsal_finds_is_said_in_words(
    changes, check, status, remedy, tmp_path, monkeypatch
):
    measured = GOOD._replace(**changes)
    monkeypatch.setattr(
        model_checks.rehearsal, "rehearse", lambda *_: measured
    )
    found = list(model_checks.check_first_update(tmp_path, Params()))
    (bad,) = [f for f in found if f.status is not Status.OK]
    assert (bad.check, bad.status) == (check, status)
    assert remedy in bad.remedy
    assert len(found) == 4


def test_a_model_that_is_random_fails_its_rehearsal(llama_folder, monkeypatch):
    """Its embedding is noisy in training, as a dropout would make it."""
    real = rehearsal.models.load_causal_lm

    def noisy(name, tokenizer):
        model = real(name, tokenizer=tokenizer)
        model.get_input_embeddings().register_forward_hook(
            lambda module, inputs, out: (
                out + torch.randn_like(out) * torch.is_grad_enabled()
            )
        )
        return model

    monkeypatch.setattr(rehearsal.models, "load_causal_lm", noisy)
    found = rehearsed(llama_folder.parent, max_new_tokens=8)
    assert found["ratio"].status is Status.FAIL
    assert found["padding"].status is Status.OK


@pytest.mark.parametrize(
    ("pass_tokens", "sequences"),
    # A minibatch has 16 / 4 episodes.
    [(0, 4), (128, 1), (384, 3), (1024, 4)],
)
def test_memory_of_ppo_by_hand(pass_tokens, sequences):
    # A sequence has 96 + 32 = 128 tokens.  A token keeps 2 layers x 20 x
    # 8 wide x 4 bytes = 1280, and 3 x 100 logits x 4 bytes = 1200: a
    # sequence 128 x 2480 = 317,440.  1000 parameters take 16 + 2 x 4
    # bytes each, 24,000.
    ppo = PPOConfig(
        batch_size=16,
        num_minibatches=4,
        max_new_tokens=32,
        pass_tokens=pass_tokens,
        lora_rank=0,
    )
    shape = Shape(1000, hidden=8, layers=2, vocabulary=100, adapted=30)

    size = memory.ppo_bytes(shape, ppo) - memory.PROGRAM

    assert size == 317_440 * sequences + 24_000

    # With LoRA of rank 2 the same 2 x 4 bytes, policy and reward model, and
    # 16 bytes for each of 2 x 30 adapter parameters: 8,000 + 960.
    ppo = dataclasses.replace(ppo, lora_rank=2)
    size = memory.ppo_bytes(shape, ppo) - memory.PROGRAM
    assert size == 317_440 * sequences + 8_960


def test_the_preset_gpu_fits_a_gpu_of_24_gb():
    # Qwen2.5-Coder-0.5B: 494M frozen parameters, twice, take 3.68 GiB; a
    # rank of adapters takes 24 x 22,912 numbers, and 16 ranks at 16 bytes
    # 0.13 GiB; 8,192 tokens keep 24 x 20 x 896 x 4 bytes each, 13.13 GiB; the
    # logits of 152k tokens exist 2**23 at a time, 0.09 GiB.
    shape = Shape(494_032_768, 896, 24, 151_936, adapted=24 * 22_912)
    needed = memory.ppo_bytes(shape, config.from_preset("gpu").ppo)
    assert needed / 2**30 == pytest.approx(
        1 + 3.68 + 0.13 + 13.13 + 0.09, abs=0.01
    )


def test_adapters_are_counted_and_must_find_their_layers(llama_folder):
    # Two layers; q, k, v, o are 32 x 32, the MLP's three 32 x 64: a rank
    # takes 2 x (4 x 64 + 3 x 96) = 1,088 numbers, two of them 2,176; a value
    # head has 33.
    name = str(llama_folder)
    assert memory.shape_of(name).adapted == 1_088
    params = config.override(Params(), {"ppo.lora_rank": 2})
    found = model_checks.check_adapters(name, params)
    assert found.status is Status.OK
    assert "LoRA trains 2,176 of" in found.detail
    valued = config.override(params, {"ppo.baseline": "value"})
    found = model_checks.check_adapters(name, valued)
    assert "LoRA trains 2,209 of" in found.detail

    params = config.override(params, {"ppo.lora_targets": ["c_attn"]})
    found = model_checks.check_adapters(name, params)
    assert found.status is Status.FAIL
    assert "q_proj" in found.detail
    assert "all-linear" in found.remedy


def test_memory_that_does_not_suffice(llama_folder, monkeypatch):
    name, params = str(llama_folder), Params()
    assert model_checks.check_memory(name, params).status is Status.OK

    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    found = model_checks.check_memory(name, params)
    assert found.status is Status.FAIL
    assert "ppo.pass_tokens" in found.remedy


def test_memory_available_is_of_this_machine():
    assert 2**26 < memory.available_bytes() < 2**46


def test_a_containers_limit_counts_what_it_holds_already(
    tmp_path, monkeypatch
):
    """Of 100,000 bytes 60,000 are taken, 15,000 of them by files that the
    kernel can drop: 100,000 - 60,000 + 15,000."""
    (tmp_path / "memory.max").write_text("100000\n")
    (tmp_path / "memory.current").write_text("60000\n")
    stat = "anon 45000\ninactive_file 15000\n"
    (tmp_path / "memory.stat").write_text(stat)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available_bytes() == 55_000


def test_outside_a_checkout_what_is_absent_is_no_failure(tmp_path):
    findings = {found.check: found for found in doctor.examine(tmp_path)}

    assert {"packages", "torch", "disk", "port 5000"} <= set(findings)
    failed = {n for n, f in findings.items() if f.status is Status.FAIL}
    assert failed <= {"disk"}
    outside = findings["checkout"]
    assert outside.status is Status.WARN
    assert outside.detail == "none here: no dvc.yaml, no data, no params.yaml"


def test_an_empty_checkout_fails_without_an_exception(tmp_path):
    (tmp_path / "dvc.yaml").touch()
    findings = list(doctor.examine(tmp_path))

    failed = {f.check for f in findings if f.status is Status.FAIL}
    assert {"data", "params.yaml"} <= failed
    assert "base model" not in {f.check for f in findings}
    assert all(f.remedy for f in findings if f.status is Status.FAIL)


def test_a_prepared_folder_passes(llama_folder, tmp_path):
    corpus(tmp_path / "data", 3, 3)
    params = config.override(Params(), {"sft.base": str(llama_folder)})
    (tmp_path / "params.yaml").write_text(config.render(params))

    findings = list(doctor.examine(tmp_path))

    assert {f.check for f in findings if f.status is Status.FAIL} <= {"disk"}
    assert {
        "base model",
        "tokenizer",
        "attention",
        "ratio",
        "padding",
        "endings",
        "reward",
        "memory",
    } <= {f.check for f in findings}


def test_details_are_not_read_as_markup(tmp_path):
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    finding = Finding("x", "[/bold] a", "pip [dev]")
    Console(file=out, width=80).print(render([finding]))

    assert "[/bold] a" in out.getvalue()
    assert "pip [dev]" in out.getvalue()
