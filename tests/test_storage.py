"""Files are written whole or not at all."""

import pandas as pd
import pytest

from stylerl import storage
from stylerl.errors import DataError


def test_a_failed_write_keeps_the_old_file_and_leaves_no_scratch(tmp_path):
    path = tmp_path / "value.json"
    storage.write_json(path, {"kept": 1})
    with pytest.raises(ValueError, match="nan"):
        storage.write_json(path, {"kept": float("nan")})
    with (
        pytest.raises(KeyboardInterrupt),
        storage.replacing(path) as scratch,
    ):
        scratch.write_text("half")
        raise KeyboardInterrupt
    assert storage.read_json(path) == {"kept": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_a_folder_is_replaced_whole(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    with storage.replacing(folder) as scratch:
        scratch.mkdir()
        (scratch / "new").touch()
    assert [p.name for p in folder.iterdir()] == ["new"]


def test_tables_keep_lists_and_give_the_same_bytes(tmp_path):
    table = pd.DataFrame({"id": ["a", "b"], "codes": [["E501"], []]})
    for name in ("one", "two"):
        storage.write_table(tmp_path / name, table)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    read = storage.read_table(tmp_path / "one")
    assert [list(codes) for codes in read["codes"]] == [["E501"], []]


@pytest.mark.parametrize("read", [storage.read_json, storage.read_table])
def test_missing_and_malformed_files_are_data_errors(tmp_path, read):
    with pytest.raises(DataError, match="run the stage that writes it"):
        read(tmp_path / "absent")
    (tmp_path / "torn").write_text("{")
    with pytest.raises(DataError, match="torn is not"):
        read(tmp_path / "torn")
