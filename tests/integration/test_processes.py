"""Two processes under `accelerate launch` take the steps of one."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stylerl.errors import ConfigError
from stylerl.lm.models import load_causal_lm
from stylerl.ppo import ranks

HERE = Path(__file__).parent


def launch(folder, processes, way="--multi_gpu"):
    """Run ppo_ranks.py in so many processes.

    accelerate's own CPU launcher wants mpirun; the one it calls multi_gpu is
    torchrun, and gives gloo where there is no GPU.
    """
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, *HERE.parents[:2]))),
        "OMP_NUM_THREADS": "1",
    }
    launcher = [
        *(sys.executable, "-m", "accelerate.commands.launch", way),
        *("--num_processes", str(processes), "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no"),
        *("--main_process_port", "0"),
    ]
    command = launcher if processes > 1 else [sys.executable]
    done = subprocess.run(
        [*command, str(HERE / "ppo_ranks.py"), str(folder)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert (done.returncode == 0) == (way != "--cpu"), done.stderr[-3000:]
    return done


def test_a_launcher_that_starts_one_of_two_says_why_not(tmp_path):
    """accelerate's own launcher for a CPU, which wants mpirun."""
    done = launch(tmp_path, 2, "--cpu")
    assert "use accelerate launch --multi_gpu --num_processes N" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("environment", "refused"),
    [
        ({}, False),
        ({"ACCELERATE_MIXED_PRECISION": "no"}, False),  # one process of one
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}, False),
        ({"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "::1"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, True),
        ({"PMI_SIZE": "1"}, False),
    ],
)
def test_how_a_process_was_started(environment, refused, monkeypatch):
    for name in (*ranks.MPI_SIZES, "MASTER_ADDR", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) if refused else nullcontext():
        assert ranks.Ranks().world_size == 1
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert ranks.Ranks().is_main


def weights(folder, index=0):
    return load_file(folder / f"weights{index}.safetensors")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Where a process alone left its results."""
    folder = tmp_path_factory.mktemp("one")
    launch(folder, 1)
    return folder


@pytest.mark.slow
def test_two_processes_end_where_one_does(one, tmp_path):
    """Nine episodes, so that the shares differ; five minibatches, so that
    one has a single row and the second process none of it."""
    launch(tmp_path, 2)
    start = load_file(one / "start.safetensors")
    alone, main, other = weights(one), weights(tmp_path), weights(tmp_path, 1)
    for name, weight in alone.items():
        assert torch.allclose(weight, main[name], atol=1e-5), name
        assert torch.equal(main[name], other[name]), name
        assert not torch.equal(weight, start[name]), name
    histories = [
        (folder / "history.txt").read_text().split()
        for folder in (one, tmp_path)
    ]
    for mine, theirs in zip(*histories, strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-4)
    saved = load_causal_lm(tmp_path / "model")
    for name, weight in saved.named_parameters():
        assert torch.equal(weight, main[f"model.{name}"]), name
