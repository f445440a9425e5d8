"""The stage `label`, from a table of snippets to a table of labels."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import write_params
from test_labels import _snippets
from test_place import each_a_file

from stylerl import storage
from stylerl.config import paths
from tasks import label

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # none
    found, files = each_a_file(_snippets())
    storage.write_table(paths.SNIPPETS, found)
    storage.write_table(paths.FILES, files)
    write_params({"label.snippets": 60})
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    return tmp_path


def test_the_stage_writes_the_same_bytes_each_time(
    workspace: Path, judged: list[bytes]
) -> None:
    label.main()
    assert len(judged) == 60  # labels, each once
    first = paths.LABELS.read_bytes()
    assert json.loads(label.METRICS.read_text())["snippets"]["train"] == 54
    label.main()
    assert paths.LABELS.read_bytes() == first
