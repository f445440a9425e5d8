"""The stage `label`, killed with SIGKILL midway and started again."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from test_labels import _snippets
from test_place import each_a_file

from stylerl import config, storage
from tasks import label

ROOT = Path(__file__).parent.parent.parent
# The stage, which writes five verdicts at once and is killed at the fourth
# five.
KILLED = """
import os, signal
from stylerl.judge import cache, judge, pool
from tasks import label
from stylerl.pipeline import process

write, times = cache.VerdictCache.write, []

def fatal(*arguments):
    write(*arguments)
    times.append(1)
    if len(times) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

cache.VerdictCache.write = fatal
judge.BATCH = 5
pool.cores = lambda: 1  # a batch is for every core
process.run_main(label.main)
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # none
    found, files = each_a_file(_snippets())
    storage.write_table(label.SNIPPETS, found)
    storage.write_table(label.FILES, files)
    changes = {"label.snippets": 60}
    params = config.override(config.Params(), changes)
    Path("params.yaml").write_text(config.render(params))
    return tmp_path


def test_a_killed_stage_goes_on_where_it_stopped(
    workspace: Path, judged: list[bytes]
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not label.LABELS.exists()
    verdicts = label.CHECKPOINTS / "verdicts.sqlite"
    with closing(sqlite3.connect(verdicts)) as connection:
        count = connection.execute("SELECT count(*) FROM verdicts").fetchone()
    assert count == (20,)

    label.main()
    assert len(judged) == 40
    assert not label.CHECKPOINTS.exists()
    resumed = label.LABELS.read_bytes()
    label.main()
    assert len(judged) == 40 + 60
    assert label.LABELS.read_bytes() == resumed
