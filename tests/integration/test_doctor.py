"""Preflight checks: what is wrong is found, and the remedy said."""

import pandas as pd
import pytest
from bases import lossy_tokenizer
from conftest import build_llama, write_params

from stylerl import storage
from stylerl.cli import doctor
from stylerl.errors import ConfigError, DataError, DiskError, ModelError


@pytest.mark.parametrize("content", [None, b"cut"])
def test_data_that_is_not_right(content, tmp_path):
    corpus = tmp_path / "corpus.parquet"
    if content:
        corpus.write_bytes(content)

    with pytest.raises(DataError, match="`stylerl collect` builds it"):
        doctor.read_data(corpus)


def test_parameters_that_break_a_rule(tmp_path):
    (tmp_path / "params.yaml").write_text("ppo:\n  gae_lambda: 2\n")

    with pytest.raises(ConfigError, match="gae_lambda must be at most 1"):
        doctor.load_base(tmp_path)


def test_disk(tmp_path):
    assert "GiB free" in doctor.measure_disk(tmp_path, needed=1e-6)
    with pytest.raises(DiskError, match="free some, or move"):
        doctor.measure_disk(tmp_path, needed=1e9)


def test_a_base_that_a_run_makes_need_not_be_there(tmp_path):
    write_params({}, tmp_path)

    assert "the first run makes artifacts/base" in doctor.load_base(tmp_path)


def test_a_missing_model_says_how_to_get_it(tmp_path):
    write_params({"sft.base": "absent/model"}, tmp_path)

    with pytest.raises(ModelError, match="run the stage that writes it"):
        doctor.load_base(tmp_path)


def test_a_tokenizer_that_loses_whitespace_is_refused(tmp_path):
    tokenizer = lossy_tokenizer()
    tokenizer.save_pretrained(tmp_path / "base")
    build_llama(len(tokenizer)).save_pretrained(tmp_path / "base")
    write_params({"sft.base": "base"}, tmp_path)

    with pytest.raises(ModelError, match="byte-level"):
        doctor.load_base(tmp_path)


def test_outside_a_checkout_what_is_absent_is_no_failure(tmp_path):
    checks = dict(doctor.checks(tmp_path))

    assert set(checks) == {"torch", "sandbox", "disk"}
    assert "Python 3" in checks["torch"]()
    assert checks["sandbox"]()


def test_an_empty_checkout_fails_without_an_exception(tmp_path, capsys):
    (tmp_path / "dvc.yaml").touch()

    assert doctor.run(tmp_path) == 1

    said = capsys.readouterr().out
    assert "FAIL  data         " in said
    assert "FAIL  params.yaml  " in said


def test_a_prepared_folder_passes(llama_folder, tmp_path, capsys):
    table = pd.DataFrame({"path": ["a", "b", "c"]})
    storage.write_table(tmp_path / "data/corpus.parquet", table)
    write_params({"sft.base": str(llama_folder)}, tmp_path)

    failed = doctor.run(tmp_path)

    said = capsys.readouterr().out
    assert failed == ("FAIL  " in said)  # the machine's disk may be small
    assert "  ok  data         3 files\n" in said
    assert "  ok  params.yaml  preset default; " in said
