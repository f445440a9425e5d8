"""How the command ends: one line and a number, whatever happens to it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import write_params

from stylerl.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
STYLERL = f"{sys.executable} -m stylerl.cli.main"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with parameters, as far as a command looks."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "flows").mkdir()
    write_params(folder=tmp_path)
    (tmp_path / "code.py").write_text("x = 1\n")
    (tmp_path / "preferences.jsonl").write_text("\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_judge_s_workers_too(
    checkout: Path, number: signal.Signals
) -> None:
    for each in range(300):
        (checkout / f"m{each}.py").write_text("x=1\n" * 99)
    process = subprocess.Popen(
        [*STYLERL.split(), "judge", "--format", "json", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a job in the background of a shell ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert ("interrupted" in said) == (number == signal.SIGINT)
    assert "Traceback" not in said
    # No one is left of its session, once workers have seen its end.
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("judge code.py | true", 141, ""),
        ("params > /dev/full", 2, "No space left on device"),
    ],
)
def test_a_stream_that_no_one_has(
    checkout: Path, words: str, code: int, says: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{STYLERL} {words}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
    )
    # It may have written all before the reader left.
    assert done.returncode in ((0, code) if "|" in words else (code,))
    assert len(done.stderr.splitlines()) == bool(says), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["complete", "x"], "there is no model to complete with"),
        (["complete", "x", "--model", "."], ". has no config.json"),
        (["run", "--preset", "huge"], "huge"),
        (["run", "--set", "preset=gpu"], "say --preset gpu"),
        (["collect", "--limit", "3"], "--limit is of --source hub"),
        (["run", "--set", "judge.config=x.cfg"], "judge.config must be a con"),
        (["run", "--set", "judge.plugins=[x]"], "'x' is none"),
        (["run", "--set", "ppo.reward={'absent:f': 1}"], "named 'absent'"),
        (["run", "--set", "ppo.reward={'code:f': 1}"], "code:f is not"),
        (["judge", ".", "--config", "code.py"], "no section headers"),
        (["run", "--set", "seed=-1"], "seed must be at least 0"),
        (["run", "--set", "sft.base=a/b"], "hub's name of a model goes into"),
    ],
)
def test_one_line_before_anything_starts(
    checkout: Path,
    words: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)  # no server, no stage
    assert cli.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stylerl: ") and says in line
