"""One whole `stylerl run`, timed, and what it measured kept.

    python benchmarks/bench_run.py NAME [arguments of `stylerl run`]

Run it in a clean clone after `make data`, so that nothing is cached.  What
the run left in metrics/, of PPO, evaluation and reward models, goes to
benchmarks/results/runs/NAME.json, with command, commit, date, machine,
seconds by the wall clock (none where artifacts were there) and the memory of
the largest process, and from
there into the README (tools/results.py).  The runs are

    seed-N      --set seed=N

and, by the stages' commands, without reward models, not timed, and kept by
hand,

    strict-N    judge.engine=ruff judge.config=examples/strict.toml, then
                `stylerl evaluate artifacts/sft artifacts/ppo`

bench_baselines.py keeps what it found beside them.
"""

import datetime
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stylerl import storage
from stylerl.pipeline import machine

RESULTS = Path(__file__).resolve().parent / "results/runs"
METRICS = {
    name: Path("metrics", f"{name}.json") for name in ("ppo", "evaluate")
}


def main() -> int:
    """Run, and keep what came of it; the exit code is the run's."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    name, *arguments = sys.argv[1:]
    command = ["stylerl", "run", *arguments]
    fresh = not Path("artifacts").exists()
    started = time.monotonic()
    done = subprocess.run(command, check=False)
    seconds = time.monotonic() - started
    if done.returncode:
        return done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "seconds": round(seconds) if fresh else None,
        "largest_process_gib": round(used.ru_maxrss / 2**20, 2),
        **{key: storage.read_json(path) for key, path in METRICS.items()},
    }
    keep(name, shlex.join(command), measured)
    print(f"{seconds:.0f} s; kept in {RESULTS / name}.json")
    return 0


def keep(name: str, command: str, measured: Mapping[str, Any]) -> None:
    """Write what a command measured, and where and when it did.

    Args:
        name: of the file.
        command: as it was typed.
        measured: what else the file says; it goes before what is known here.
    """
    made = {
        "command": command,
        "commit": commit(),
        "date": str(datetime.date.today()),
        "machine": f"{machine.cpu()}, {os.cpu_count()} cores",
    }
    storage.write_json(RESULTS / f"{name}.json", {**made, **measured})


def commit() -> str:
    """The short hash of the checkout's commit."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
