"""Two processes under `accelerate launch` take the steps of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent


def launch(folder, processes, port):
    """Run tests/ppo_ranks.py in so many processes.

    accelerate's own CPU launcher wants mpirun; the one it calls multi_gpu is
    torchrun, and gives gloo where there is no GPU.
    """
    env = {
        **os.environ,
        "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE}",
        "OMP_NUM_THREADS": "1",
    }
    launcher = [
        *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"),
        *("--num_processes", str(processes), "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no"),
        *("--main_process_port", str(port)),
    ]
    command = launcher if processes > 1 else [sys.executable]
    done = subprocess.run(
        [*command, str(HERE / "ppo_ranks.py"), str(folder)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.mark.slow
def test_two_processes_end_where_one_does(tmp_path):
    """Seven episodes, so that the shares differ; four minibatches, so that
    one has a single row and the second process none of it."""
    for name, count in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        launch(tmp_path / name, count, 29511)
    one, two, other = (
        load_file(tmp_path / name)
        for name in (
            "one/weights0.safetensors",
            "two/weights0.safetensors",
            "two/weights1.safetensors",
        )
    )
    start = load_file(tmp_path / "one" / "start.safetensors")
    for name, weight in one.items():
        assert torch.allclose(weight, two[name], atol=1e-5), name
        assert torch.equal(two[name], other[name]), name
    moved = [not torch.equal(one[name], start[name]) for name in one]
    assert all(moved)
    histories = [
        (tmp_path / name / "history.txt").read_text().split()
        for name in ("one", "two")
    ]
    for mine, theirs in zip(*histories, strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-4)
