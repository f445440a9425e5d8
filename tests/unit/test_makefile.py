"""`make base` leaves dvc.yaml as it was, however the training ends."""

import os
import shutil
import signal
import subprocess

import pytest
from test_architecture import ROOT

# A program in DVC's place: it notes what it is asked, and training ends as
# the test says.
DVC = """#!/bin/sh
echo "$@" >> asked
case "$1 $2" in "repro --single-item") {end};; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder in which there is nothing to set up or to collect."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    for name in ("requirements.lock", "pyproject.toml", ".venv/.installed"):
        (tmp_path / name).touch()
    (tmp_path / "data" / "manifest.json").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("end", "ok"),
    [
        ("exit 0", True),
        ("exit 1", False),
        ("kill -TERM $PPID", False),
        ("kill -INT $PPID", False),
    ],
)
def test_pretrain_is_frozen_again(end, ok, checkout):
    dvc = checkout / ".venv" / "bin" / "dvc"
    dvc.write_text(DVC.format(end=end))
    dvc.chmod(0o755)
    outside = {k: v for k, v in os.environ.items() if "MAKE" not in k}
    done = subprocess.run(
        ["make", "base"],
        cwd=checkout,
        env=outside,
        capture_output=True,
        # A shell has programs in its background ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode == 0) == ok, done.stderr
    assert (checkout / "asked").read_text().splitlines() == [
        "repro filter",
        "unfreeze pretrain",
        "repro --single-item pretrain",
        "freeze pretrain",
        *(["push pretrain"] if ok else []),
    ]
