"""`make gpu` at a toy size: every part of it runs on a CPU."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def page(tmp_path, *options):
    """The page that the benchmark writes."""
    out = tmp_path / "gpu.md"
    script = ROOT / "benchmarks" / "bench_gpu.py"
    command = [sys.executable, str(script), "--toy", "--out", str(out)]
    subprocess.run([*command, *options], check=True)
    return out.read_text()


def test_both_trainers_give_a_line_for_each_model(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    bench_gpu = importlib.import_module("bench_gpu")

    def here(command, _):
        """A case in this process, which has imported everything."""
        bench_gpu.child(command[command.index("--case") + 1], toy=True)
        return None, capsys.readouterr().out

    monkeypatch.setattr(bench_gpu, "run", here)
    text = "\n".join(bench_gpu.trainers(bench_gpu.Clock(300), toy=True))
    rows = re.findall(r"\| (\S+) \| (ours|TRL RLOO) \|.* \| [\d.]+% \|", text)
    models = ("gpt2-110m", "qwen2-0.5b")
    assert rows == [(m, side) for m in models for side in ("ours", "TRL RLOO")]


def test_what_there_is_no_time_for_is_named(tmp_path):
    text = page(tmp_path, "--seconds", "5")
    assert text.count("no time was left") == 1 + 4 + 1
