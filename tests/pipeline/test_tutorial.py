"""docs/tutorial.md: its commands, one after the other, in a clone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import bases
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]
# A block that is to be run, and whether it may find something.
BLOCK = re.compile(
    r"<!-- run(, may exit with 1)? -->\n```sh\n(.*?)```", re.DOTALL
)
# The numbers of the tutorial's preset, made little: `.ci/run` runs it whole.
LITTLE = " ".join(f"--set {k}={v}" for k, v in bases.LITTLE.items())
STYLE = "[flake8]\nmax-line-length = 99\nextend-ignore = E203\n"


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of stylerl beside a project: our own code, in its own git."""
    folder, project = tmp_path / "stylerl", tmp_path / "project"
    shutil.copytree(ROOT / "stylerl", project / "source")
    (project / "setup.cfg").write_text(STYLE)
    for command in (
        ["git", "clone", "-q", str(ROOT), str(folder)],
        ["git", "init", "-q", str(project)],
        ["git", "-C", str(project), "add", "."],
    ):
        subprocess.run(command, check=True)
    return folder


def test_the_tutorial_runs_from_judging_to_completing(clone: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs/tutorial.md").read_text())
    assert len(blocks) == 6
    output = []
    for may_find, block in blocks:
        command = block.replace("--preset smoke", f"--preset smoke {LITTLE}")
        done = run(command, clone)
        assert done.returncode <= bool(may_find), command + done.stderr
        output.append(done.stdout)
    judged, collected, params, checked, ran, completed = output
    assert "compliant" in judged
    assert "files in data/" in collected
    assert "preset: smoke" in params
    assert "FAIL" not in checked
    assert "PPO - SFT" in ran
    assert "PPO" in completed
    assert (clone / "artifacts/report/report.html").exists()
