"""kill -9 of a whole run at random moments, and what the next one ends as.

FOLDER is a clone with data/ that this script alone uses: what git ignores is
deleted there before each kill, but for data/.  One undisturbed run says what
the bytes of artifacts/ and metrics/ must be, and how long a run takes.  Then
a run is started, and it, its Prefect server, DVC and the stage at work are
killed at once, at a moment drawn from that time; the next run must end well,
with the same bytes.  Outcomes are appended to FOLDER.jsonl, from where a
second call goes on.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

TITLE = "kill -9 of a run"
RUN = (sys.executable, "-m", "stylerl.cli.main", "run", "--preset", "smoke")
MADE = ("artifacts", "metrics")
TIMED = "report.html"  # its last section says how long each stage took
LIMIT = 1200.0  # seconds after which a run hangs


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a user may choose."""
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--kills", type=int, default=50, metavar="N")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--until", metavar="HH:MM", help="begin none after")


def measure(options: argparse.Namespace) -> str:
    """Kill and run again, as often as time allows; the outcomes."""
    folder = options.folder.resolve()
    log = folder.parent / f"{folder.name}.jsonl"
    rows = [json.loads(line) for line in read(log).splitlines()]
    if not rows:
        reset(folder)
        seconds = run(folder)
        rows = [{"seconds": seconds, "files": digests(folder)}]
        append(log, rows[0])
    rng = random.Random(options.seed)
    moments = [rng.random() for _ in range(options.kills)]
    for moment in moments[len(rows) - 1 :]:
        now = datetime.datetime.now().strftime("%H:%M")
        if options.until and now >= options.until:
            break
        rows.append(kill(folder, moment * rows[0]["seconds"]))
        rows[-1]["lost"] = differing(rows[0]["files"], digests(folder))
        append(log, rows[-1])
        print(rows[-1], flush=True)
    return report(rows[0], rows[1:])


def kill(folder: Path, moment: float) -> dict[str, Any]:
    """One run killed after `moment` seconds, and one to its end."""
    reset(folder)
    process = start(folder)
    time.sleep(moment)
    ended = process.poll()
    stage = kill_tree(process.pid)
    process.wait()
    row = {"moment": moment, "stage": stage, "ended": ended is not None}
    try:
        return {**row, "seconds": run(folder), "said": ""}
    except RuntimeError as error:
        return {**row, "seconds": 0.0, "said": str(error)}


def kill_tree(root: int) -> str:
    """SIGKILL to a process and all that came from it; what was at work."""
    try:
        tree = [psutil.Process(root)]
    except psutil.NoSuchProcess:
        return ""
    size = 0
    while size != len(tree):  # what is stopped starts nothing more
        size = len(tree)
        for process in tree:
            attempt(process.suspend)
        tree = [tree[0], *tree[0].children(recursive=True)]
    words = [word for each in tree for word in command(each)]
    for process in tree:
        attempt(process.kill)
    psutil.wait_procs(tree[1:], 30)
    stages = [word for word in words if word.startswith("tasks.")]
    return stages[-1].removeprefix("tasks.") if stages else "between stages"


def command(process: psutil.Process) -> list[str]:
    """The words of a process, none where it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def attempt(call: Any) -> None:
    """Call, unless the process is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        call()


def start(folder: Path) -> subprocess.Popen[str]:
    """A run, with its records in the folder alone."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "MLFLOW_"))
    }
    return subprocess.Popen(
        RUN,
        cwd=folder,
        env={
            **kept,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(folder),
            "PREFECT_HOME": str(folder / ".prefect"),
        },
        stdin=subprocess.DEVNULL,
        stdout=(folder.parent / f"{folder.name}.out").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path) -> float:
    """Seconds of a run to its end; raises RuntimeError where it fails."""
    started = time.monotonic()
    process = start(folder)
    try:
        code: int | str = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        code = f"none after {LIMIT:g} s"
    if code:
        said = read(folder.parent / f"{folder.name}.out")
        raise RuntimeError(f"exit code {code}: {said[-2000:]}")
    return time.monotonic() - started


def reset(folder: Path) -> None:
    """The clone as it was cloned, with its data."""
    for words in ("checkout -q .", "clean -qxfd -e data"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file that a run makes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for name in MADE
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and path.name != TIMED
    }


def differing(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """The files that are not as they should be."""
    return sorted(
        name
        for name in {*expected, *found}
        if expected.get(name) != found.get(name)
    )


def read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def report(first: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """What came of it."""
    if failed := [row for row in rows if row["said"] or row["lost"]]:
        raise SystemExit(json.dumps(failed, indent=1))
    killed = [row for row in rows if not row["ended"]]
    where = Counter(row["stage"] for row in killed).most_common()
    took = sum(row["seconds"] for row in killed) / max(len(killed), 1)
    return (
        f"{len(killed)} runs of `stylerl run --preset smoke` killed with "
        "their whole tree, the Prefect server included, each time from "
        f"nothing; the run after each ended well, and all of its "
        f"{len(first['files'])} files in artifacts/ and metrics/ had the "
        "bytes of the undisturbed one (the report's page apart, which says "
        f"how long each stage took). That took {first['seconds']:.0f} s, "
        f"the runs after a kill {took:.0f} s on average. At work when "
        f"killed: {', '.join(f'{name} {count}' for name, count in where)}."
    )
