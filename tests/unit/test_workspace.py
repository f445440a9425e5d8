"""The folder of a run."""

from pathlib import Path

import pytest

from stylerl.errors import DataError, DiskError
from stylerl.pipeline import tracking, workspace


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".dvc").touch()
    said = "cannot write .dvc/tmp/stylerl.lock: a file stands where a folder"
    with pytest.raises(DiskError, match=said), workspace.exclusive():
        pass


def test_to_compare_makes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(DataError, match="run typo must be a folder, or in"):
        tracking.completions("typo")
    assert not [*tmp_path.iterdir()]
