"""A run with nothing to do: seconds by phase, and the share of the floor.

    python benchmarks/bench_idle.py [--repeat N] [FOLDER...]

Each FOLDER (default: the current one) is a checkout that is up to date: a
`stylerl run` in it has finished.  Each runs N times with the code that it
holds, in turn, so that two states of the code meet the same load.  The floor
is what no run can avoid, on the same machine in the same minutes: to import
Prefect, DVC and MLflow, while a Prefect server starts on another core.  The
table goes to standard output.
"""

import argparse
import datetime
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

RUN = (sys.executable, "-m", "stylerl.cli.main", "run")
MARKS = {  # what a phase ends with: a line of the output
    "command line": "starting Prefect",
    "server and imports": "Beginning flow run",
    "DVC": "Task run 'probe' - Finished",
    "stages": "Task run 'report' - Finished",
    "metrics, registry, promotion": "Flow run '",
    "table": "MLflow   make ui",
    "end of server and process": "",
}
STORE = Path(tempfile.gettempdir(), "bench_idle")  # is made once
IMPORTS = "import prefect.flows, dvc.repo, mlflow; mlflow.MlflowClient()"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    folders = [each.resolve() for each in options.folders or [Path()]]
    runs: dict[Path, list[dict[str, float]]] = {each: [] for each in folders}
    floors = []
    STORE.mkdir(exist_ok=True)
    floor()  # makes the store
    for _ in range(options.repeat):
        floors.append(floor())
        for folder in folders:
            runs[folder].append(run(folder))
    print(table(runs, statistics.median(floors), options.repeat))


def run(folder: Path) -> dict[str, float]:
    """Seconds of each phase of one run, its total and its CPU seconds."""
    before, start = cpu(), time.monotonic()
    process = subprocess.Popen(
        RUN,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    phases: dict[str, float] = {}
    waiting, last = list(MARKS.items()), start
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        phase, mark = waiting[0]
        if mark and mark in line:
            now = time.monotonic()
            phases[phase], last = now - last, now
            waiting.pop(0)
    code = process.wait()
    if code or len(waiting) != 1 or text.count("Cached") < 8:
        sys.exit(f"{folder} is not up to date, or its run failed:\n{text}")
    end = time.monotonic()
    phases[waiting[0][0]] = end - last
    return {**phases, "total": end - start, "CPU": cpu() - before}


def floor() -> float:
    """Seconds until Prefect, DVC and MLflow are imported, a server beside."""
    start = time.monotonic()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = ["server", "start", "--no-ui", "--host", "127.0.0.1"]
    server = subprocess.Popen(
        [sys.executable, "-m", "prefect", *command, "--port", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runs = {"MLFLOW_TRACKING_URI": f"sqlite:///{STORE}/mlflow.db"}
    try:
        subprocess.run(
            [sys.executable, "-c", IMPORTS],
            check=True,
            env={**os.environ, **runs},
        )
        while not answers(f"http://127.0.0.1:{port}/api/health"):
            time.sleep(0.05)
        return time.monotonic() - start
    finally:
        server.terminate()
        server.wait()


def answers(url: str) -> bool:
    """Whether a server is there."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def cpu() -> float:
    """CPU seconds of every child that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(
    runs: dict[Path, list[dict[str, float]]], least: float, repeat: int
) -> str:
    """The medians, in Markdown."""
    return "\n".join(rows(runs, least, repeat))


def rows(
    runs: dict[Path, list[dict[str, float]]], least: float, repeat: int
) -> Iterator[str]:
    """The lines of the table."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    yield (
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} "
        f"cores, load {load}, median of {repeat} runs in turn; seconds"
    )
    yield ""
    heads = [f"{each.parent.name}/{each.name}" for each in runs]
    yield f"| phase | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(runs)}"
    median = {
        folder: {
            phase: statistics.median(each[phase] for each in found)
            for phase in found[0]
        }
        for folder, found in runs.items()
    }
    for phase in [*MARKS, "total", "CPU"]:
        cells = " | ".join(f"{each[phase]:.1f}" for each in median.values())
        yield f"| {phase} | {cells} |"
    shares = [f"{least / each['total']:.0%}" for each in median.values()]
    yield f"| share of the floor, {least:.1f} s | {' | '.join(shares)} |"


if __name__ == "__main__":
    main()
