"""`make gpu` at a toy size: what of it runs on a CPU, and what it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import bench_gpu
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture
def elsewhere(tmp_path):
    """The script in a folder that has no tests, data or models."""
    folder = tmp_path / "checkout"
    (folder / "benchmarks").mkdir(parents=True)
    for name in ("bench_gpu.py", "rates.py"):
        shutil.copy(ROOT / "benchmarks" / name, folder / "benchmarks")
    return folder


def bench(root, *options):
    """The exit status of the script of a checkout, and what it printed."""
    script = root / "benchmarks" / "bench_gpu.py"
    done = subprocess.run(
        [sys.executable, str(script), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_both_trainers_give_a_line_for_each_model(monkeypatch, capsys):
    def here(command, _):
        """A case in this process, which has imported everything."""
        bench_gpu.child(command[command.index("--case") + 1], toy=True)
        return None, capsys.readouterr().out

    monkeypatch.setattr(bench_gpu, "run", here)
    text = "\n".join(bench_gpu.trainers(bench_gpu.Clock(300), toy=True))
    rows = re.findall(r"\| (\S+) \| (ours|TRL GRPO) \|.* \| [\d.]+% \|", text)
    models = ("smollm2-135m", "qwen2.5-0.5b")
    assert rows == [(m, side) for m in models for side in ("ours", "TRL GRPO")]


def test_what_there_is_no_time_for_is_named(tmp_path):
    out = tmp_path / "gpu.md"
    status, _ = bench(ROOT, "--toy", "--out", out, "--seconds", "5")
    assert status == 0
    text = out.read_text()
    assert text.count("no time was left") == 1 + 4
    assert "Left out: --toy has no such part." in text


def test_what_failed_is_on_the_page_and_in_the_exit_status(elsewhere):
    out = elsewhere / "out" / "gpu.md"
    status, _ = bench(elsewhere, "--toy", "--out", out, "--only", "tests")
    assert status == 1
    assert "`pytest -m device`: failed: " in out.read_text()


def test_a_pipeline_without_its_inputs_is_left_out(elsewhere):
    status, printed = bench(elsewhere, "--only", "pipeline")
    assert status == 0
    named = "Left out: there is no data/corpus.parquet and no artifacts/base."
    assert named in printed
    page = elsewhere / "benchmarks" / "results" / "gpu.md"
    assert named in page.read_text()


def test_a_toy_is_not_taken_for_a_gpu(elsewhere):
    status, printed = bench(elsewhere, "--toy", "--only", "tests")
    assert status == 2
    *_, said = printed.splitlines()
    assert said.endswith(
        "error: --toy needs --out: its figures are not a GPU's"
    )
    assert not (elsewhere / "benchmarks" / "results").exists()


def test_every_file_with_tests_of_the_device_is_named():
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"pytest\.mark\.device\b", path.read_text())
    }
    assert set(bench_gpu.TESTS) == marked


@pytest.mark.parametrize("toy", [False, True])
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-0.5b"])
def test_the_floor_counts_the_matrices_of_the_model(name, toy):
    size = (bench_gpu.TOYS if toy else bench_gpu.SIZES)[name]
    with torch.device("meta"):
        model = bench_gpu.model_of(size)
    matrices = [
        weight.numel()
        for name, weight in model.named_parameters()
        if weight.ndim == 2 and re.search(r"\.\d+\.", name)  # in a layer
    ]
    assert sum(matrices) == size.layers * bench_gpu.block(size)
