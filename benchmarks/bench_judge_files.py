"""`stylerl judge` against `flake8` on whole files, command against command.

    python benchmarks/bench_judge_files.py [--folder FOLDER]

Both judge the same folder under the same rules, with noqa disabled, from a
cold start to the last line of output, in turn; flake8 sees no plugin but its
own.  One difference in what they find, and nothing is written.  Memory is
that of all processes of a command together (PSS: shared pages are counted
once) and of the largest one, in a run of its own.

The floor is the CPU time that pycodestyle, pyflakes, the tokenizer and the
parser themselves take in one process, divided by the cores: what a command
would need that did nothing else.  Results go to
benchmarks/results/judge_files.md.
"""

import argparse
import datetime
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil
from bench_judge import CONFIG, FORMAT, cpu_seconds, machine, profile

from stylerl.judge.engine import OWN_PLUGINS, Engine, arguments
from stylerl.judge.pool import cores

RESULTS = Path(__file__).parent / "results" / "judge_files.md"
ALONE = f"""
import importlib.metadata, sys
every = importlib.metadata.distributions
importlib.metadata.distributions = lambda: (
    found for found in every() if found.metadata["Name"] in {set(OWN_PLUGINS)}
)
from flake8.main.cli import main
sys.exit(main(sys.argv[1:]))
"""
OWN_WORK = (
    "pycodestyle",
    "pyflakes",
    "tokenize (standard library)",
    "parsing (ast)",
)
TICK = 0.05  # seconds between two looks at the memory
MIB = 2**20

Finding = tuple[int, int, str, str]
Findings = dict[str, list[Finding]]


class Turn(NamedTuple):
    """One run of a command."""

    clock: float  # seconds
    cpu: float  # seconds, all processes
    output: str


class Memory(NamedTuple):
    """The most that was seen at once, in MiB of PSS."""

    together: float
    largest: float


def main() -> None:
    """Measure, compare and write the results."""
    options = parse_options()
    folder = str(options.folder)
    theirs = [
        *(sys.executable, "-c", ALONE, *arguments(CONFIG), FORMAT),
        *(f"-j{cores()}", folder),
    ]
    ours = [
        *(sys.executable, "-m", "stylerl.cli.main", "judge"),
        *("--format", "json", folder),
    ]
    turns = [(run(theirs), run(ours)) for _ in range(options.turns)]
    for first, second in turns:
        if by_line(first.output) != by_object(second.output):
            raise SystemExit("the judge and flake8 differ")
    sources = [
        path.read_bytes() for path in sorted(options.folder.rglob("*.py"))
    ]
    text = report(
        options, turns, watch(theirs), watch(ours), floor(sources), sources
    )
    RESULTS.write_text(text)
    print(text)


def parse_options() -> argparse.Namespace:
    """The command line."""
    found = importlib.util.find_spec("networkx")
    folder = Path(found.origin).parent if found and found.origin else None
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=folder)
    parser.add_argument("--turns", type=int, default=5, metavar="N")
    return parser.parse_args()


def run(command: list[str]) -> Turn:
    """A command from its start to its end."""
    cpu, clock = cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    took = time.perf_counter() - clock
    if done.stderr or done.returncode not in (0, 1):
        raise SystemExit(f"{command[:3]} must work: {done.stderr}")
    return Turn(took, cpu_seconds() - cpu, done.stdout)


def watch(command: list[str]) -> Memory:
    """A command's memory; looking at it slows it, so it is not timed."""
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    together = largest = 0
    while process.poll() is None:
        sizes = [0]
        for each in (process, *process.children(recursive=True)):
            try:
                sizes.append(each.memory_full_info().pss)
            except psutil.Error:  # it has just ended
                continue
        together, largest = max(together, sum(sizes)), max(largest, *sizes)
        time.sleep(TICK)
    return Memory(together / MIB, largest / MIB)


def by_line(output: str) -> Findings:
    """flake8's findings by file."""
    found: Findings = defaultdict(list)
    for line in output.splitlines():
        path, row, col, code, text = line.split("\t", 4)
        found[path].append((int(row), int(col), code, text))
    return {path: sorted(each) for path, each in found.items()}


def by_object(output: str) -> Findings:
    """The judge's findings by file."""
    files = map(json.loads, output.splitlines())
    return {
        file["path"]: [tuple(each.values()) for each in file["violations"]]
        for file in files
        if file["violations"]
    }


def floor(sources: list[bytes]) -> float:
    """CPU seconds of the tools' own work on all sources."""
    engine = Engine(CONFIG)
    started = time.process_time()
    for source in sources:
        engine.check(source)
    took = time.process_time() - started
    shares = profile(sources, rounds=1)
    return took * sum(shares[name] for name in OWN_WORK) / shares.total()


def report(
    options: argparse.Namespace,
    turns: list[tuple[Turn, Turn]],
    theirs: Memory,
    ours: Memory,
    least: float,
    sources: list[bytes],
) -> str:
    """The results as Markdown."""
    ratios = [first.clock / second.clock for first, second in turns]
    flake8, judge = (
        min(each, key=lambda turn: turn.clock)
        for each in zip(*turns, strict=True)
    )
    share = least / cores() / judge.clock
    lines = [
        "# stylerl judge against flake8 on whole files",
        "",
        "`python benchmarks/bench_judge_files.py "
        f"--turns {options.turns}`, {datetime.date.today()}, {machine()}",
        "",
        f"`{options.folder.name}`, {len(sources)} files, "
        f"{sum(map(len, sources)) / MIB:.1f} MiB; what both find is equal. "
        f"{options.turns} turns each, one after the other; best clock.",
        "",
        "| | clock, s | CPU, s | memory of all, MiB | largest process, MiB |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {turn.clock:.2f} | {turn.cpu:.2f} | "
            f"{memory.together:.0f} | {memory.largest:.0f} |"
            for name, turn, memory in (
                (f"flake8 -j{cores()}", flake8, theirs),
                ("stylerl judge", judge, ours),
            )
        ),
        "",
        f"- **{flake8.clock / judge.clock:.2f} times as fast** (turn by "
        f"turn {min(ratios):.2f} to {max(ratios):.2f}, median "
        f"{statistics.median(ratios):.2f}; by CPU time "
        f"{flake8.cpu / judge.cpu:.2f}), with "
        f"{ours.together / theirs.together:.2f} of the memory.",
        f"- Floor {least / cores():.2f} s: {share:.0%} of the judge's "
        "time is the tools' own work.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
