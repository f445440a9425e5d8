"""Files are written whole or not at all."""

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import files_of_at_most
from safetensors import SafetensorError

from stylerl import storage
from stylerl.errors import DataError, DiskError
from stylerl.lm import checkpoint

FULL = Path("/dev/full")  # every write fails for want of room


def test_a_failed_write_keeps_the_old_file_and_leaves_no_scratch(tmp_path):
    path = tmp_path / "value.json"
    storage.write_json(path, {"kept": 1})
    with pytest.raises(ValueError, match="nan"):
        storage.write_json(path, {"kept": float("nan")})
    with pytest.raises(KeyboardInterrupt), storage.replacing(path) as scratch:
        scratch.write_text("half")
        raise KeyboardInterrupt
    assert storage.read_json(path) == {"kept": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.skipif(not FULL.exists(), reason="Linux has /dev/full")
def test_a_full_disk_is_one_sentence(tmp_path):
    path = tmp_path / "value.json"
    storage.write_json(path, 1)
    with (
        pytest.raises(DiskError, match="value.json: the disk is full; make"),
        storage.replacing(path),
    ):
        FULL.write_text("x")
    assert storage.read_json(path) == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.EROFS, "refused"), DiskError),
        (OSError(errno.EACCES, "refused"), DiskError),
        (OSError(errno.EDQUOT, "refused"), DiskError),
        (OSError(errno.EFBIG, "refused"), DiskError),
        (OSError(errno.EPERM, "refused"), DiskError),
        (SafetensorError("No space left on device (os error 28)"), DiskError),
        (OSError(errno.EIO, "refused"), OSError),  # not ours to explain
        (ValueError("28"), ValueError),
    ],
)
def test_other_refusals_of_the_system(tmp_path, error, raised):
    with pytest.raises(raised), storage.writing(tmp_path):
        raise error


@pytest.mark.parametrize(
    "write",
    [
        lambda path: storage.write_text(path, "x" * 9999),
        lambda path: storage.write_json(path, ["x"] * 9999),
        lambda path: storage.write_table(
            path, pd.DataFrame({"x": np.random.default_rng(0).random(9999)})
        ),
        lambda path: checkpoint.save(
            path, checkpoint.Checkpoint(1, {"w": {"w": torch.ones(9999)}}, {})
        ),
    ],
    ids=["text", "json", "table", "checkpoint"],
)
def test_a_file_that_may_not_grow_is_one_sentence(tmp_path, write):
    words = "raise the limit .ulimit -f."
    with files_of_at_most(4096), pytest.raises(DiskError, match=words):
        write(tmp_path / "file")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_folder_is_replaced_whole(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    with storage.replacing(folder) as scratch:
        scratch.mkdir()
        (scratch / "new").touch()
    assert [p.name for p in folder.iterdir()] == ["new"]


def test_a_mounted_folder_is_not_emptied(tmp_path, monkeypatch):
    (tmp_path / "kept").touch()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with (
        pytest.raises(DiskError, match="something is mounted there"),
        storage.replacing(tmp_path) as scratch,
    ):
        scratch.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_tables_keep_lists_and_give_the_same_bytes(tmp_path):
    table = pd.DataFrame({"id": ["a", "b"], "codes": [["E501"], []]})
    table.attrs = {"judge": "0123", "prompt_texts": ["x"]}
    for name in ("one", "two"):
        storage.write_table(tmp_path / name, table)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    read = storage.read_table(tmp_path / "one")
    assert [list(codes) for codes in read["codes"]] == [["E501"], []]
    assert read.attrs == table.attrs


@pytest.mark.parametrize("read", [storage.read_json, storage.read_table])
def test_missing_and_malformed_files_are_data_errors(tmp_path, read):
    with pytest.raises(DataError, match="run the stage that writes it"):
        read(tmp_path / "absent")
    (tmp_path / "torn").write_text("{")
    with pytest.raises(DataError, match="torn is not"):
        read(tmp_path / "torn")
