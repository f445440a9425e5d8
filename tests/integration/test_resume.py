"""SIGKILL anywhere, then the same command: bit for bit the same end."""

import multiprocessing
import os
import random
import time
from multiprocessing import forkserver
from pathlib import Path

import ppo_run
import pytest

KILLS = 20
PHASES = ("rollout", "judge", "score", "learn", "save")


@pytest.fixture(scope="module")
def context():
    """Processes that fork from one which has imported everything.

    It is one of ours alone: another test may have started the usual one,
    which then has imported nothing.
    """
    here = Path(__file__).parent
    ours = forkserver.ForkServer()
    ours.set_forkserver_preload(["ppo_run"])
    with pytest.MonkeyPatch.context() as patch:
        places = map(str, (here, *here.parents[:2]))
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        new_process = ours.connect_to_new_process
        patch.setattr(forkserver, "connect_to_new_process", new_process)
        ours.ensure_running()
        yield multiprocessing.get_context("forkserver")


def train(
    context,
    folder: Path,
    patience: int | None = None,
    phase: str = "",
    delay: float = 0.0,
) -> list[str]:
    """Run, and kill the run after `patience` phases, `delay` seconds after
    the next `phase` began or ended; the phases seen."""
    folder.mkdir(exist_ok=True)
    ours, theirs = context.Pipe()
    process = context.Process(target=ppo_run.run, args=(str(folder), theirs))
    process.start()
    theirs.close()
    seen = []
    try:
        while patience is None or len(seen) < patience or seen[-1] != phase:
            seen.append(ours.recv())
            ours.send("go on")
        time.sleep(delay)
        process.kill()
    except EOFError:  # it came to its end
        pass
    process.join()
    assert process.exitcode in (0, -9)
    return seen


@pytest.fixture(scope="module")
def whole(context, tmp_path_factory):
    """The folder of a run that nobody killed, and its phases."""
    folder = tmp_path_factory.mktemp("resume") / "whole"
    return folder, train(context, folder)


@pytest.mark.timeout(900)  # twenty starts of a process
def test_a_killed_run_ends_as_one_that_was_not(context, whole, tmp_path):
    """20 kills on the way, in each of the phases in turn, each after a
    number of phases and milliseconds drawn at random."""
    folder, _ = whole
    rng = random.Random(0)
    for number in range(KILLS):
        phase = PHASES[number % len(PHASES)]
        patience = rng.randrange(1, 35)
        delay = rng.uniform(0, 0.01)
        seen = train(context, tmp_path / "killed", patience, phase, delay)
        assert seen[-1] == phase
    assert not (tmp_path / "killed" / "end.json").exists()
    train(context, tmp_path / "killed")
    for name in ("weights.safetensors", "end.json"):
        expected = (folder / name).read_bytes()
        assert (tmp_path / "killed" / name).read_bytes() == expected
