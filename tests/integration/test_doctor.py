"""Preflight checks: what is wrong is found, and the remedy said."""

import pandas as pd
import pytest
from bases import lossy_tokenizer
from conftest import write_params

from stylerl import storage
from stylerl.cli import doctor


@pytest.mark.parametrize("content", [None, b"cut"])
def test_data_that_is_not_right(content, tmp_path):
    if content:
        (tmp_path / "corpus.parquet").write_bytes(content)

    found = doctor.check_data(tmp_path)

    assert found.failed
    assert found.remedy == "stylerl collect"


def test_parameters(tmp_path):
    path = tmp_path / "params.yaml"
    write_params(folder=tmp_path)
    assert not doctor.check_parameters(path).remedy

    path.write_text("ppo:\n  gae_lambda: 2\n")
    found = doctor.check_parameters(path)
    assert found.failed
    assert "ppo.gae_lambda must be at most 1" in found.detail


def test_disk(tmp_path):
    assert not doctor.check_disk(tmp_path, needed=1e-6).remedy
    assert doctor.check_disk(tmp_path, needed=1e9).failed


def test_a_missing_model_says_how_to_get_it(tmp_path):
    found = doctor.check_model(str(tmp_path / "absent"))

    assert found.failed
    assert "`dvc repro base` makes artifacts/base" in found.remedy


def test_a_tokenizer_that_loses_whitespace_is_refused(tmp_path):
    lossy_tokenizer().save_pretrained(tmp_path)
    storage.write_json(tmp_path / "config.json", {"model_type": "gpt2"})

    found = doctor.check_tokenizer(str(tmp_path))

    assert found.failed
    assert "byte-level" in found.remedy


def test_outside_a_checkout_what_is_absent_is_no_failure(tmp_path):
    findings = {found.check: found for found in doctor.examine(tmp_path)}

    assert set(findings) == {"torch", "sandbox", "disk"}
    failed = {n for n, f in findings.items() if f.failed}
    assert failed <= {"disk"}


def test_an_empty_checkout_fails_without_an_exception(tmp_path):
    (tmp_path / "dvc.yaml").touch()
    findings = list(doctor.examine(tmp_path))

    failed = {f.check for f in findings if f.failed}
    assert {"data", "params.yaml"} <= failed
    assert "base model" not in {f.check for f in findings}


def test_a_prepared_folder_passes(llama_folder, tmp_path):
    table = pd.DataFrame({"path": ["a", "b", "c"]})
    storage.write_table(tmp_path / "data/corpus.parquet", table)
    write_params({"sft.base": str(llama_folder)}, tmp_path)

    findings = list(doctor.examine(tmp_path))

    assert {f.check for f in findings if f.failed} <= {"disk"}
    assert {"base model", "tokenizer"} <= {f.check for f in findings}
    (data,) = [f for f in findings if f.check == "data"]
    assert (data.remedy, data.detail) == ("", "3 files")


def test_what_is_found_is_said_with_its_remedy(tmp_path, capsys, monkeypatch):
    found = [
        doctor.Finding("disk", "9 GiB free"),
        doctor.Finding("sandbox", "none", "nothing is measured", fatal=False),
        doctor.Finding("data", "[/bold] a", "stylerl collect"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda _: found)

    assert doctor.run(tmp_path) == 1
    assert capsys.readouterr().out == (
        "  ok  disk         9 GiB free\n"
        "warn  sandbox      none\n"
        "                   -> nothing is measured\n"
        "FAIL  data         [/bold] a\n"
        "                   -> stylerl collect\n"
    )
    monkeypatch.setattr(doctor, "examine", lambda _: found[:2])
    assert doctor.run(tmp_path) == 0
