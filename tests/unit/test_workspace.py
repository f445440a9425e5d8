"""The folder of a run."""

from pathlib import Path

import pytest

from stylerl.errors import DiskError
from stylerl.pipeline import workspace


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".dvc").touch()
    said = "cannot write .dvc/tmp/stylerl.lock: a file stands where a folder"
    with pytest.raises(DiskError, match=said), workspace.exclusive():
        pass
