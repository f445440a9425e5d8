"""The judge against the flake8 command: same snippets, same verdicts.

    python benchmarks/bench_judge.py [--snippets N] [--jobs N] [--single N]

Functions of the installed packages, half of them corrupted, are judged

1. by the judge, on one core and on several;
2. by the flake8 command, started once for each snippet, as the notebook
   this project grew from did; on a sample, and extrapolated;
3. by one flake8 command over a folder of them all, `-j1` and `-j` several;
4. by the judge with ruff as its engine, under rules of the same families.

Every verdict of 1 is compared with that of 2 and 3 in the same run; one
difference, and nothing is written (bench_judge_ruff.py does so for 4).
Speeds are given by the clock and by CPU time of all processes, their start
included, the best of three rounds in which 1, 3 and 4 take turns; on a
machine that does something else as well, believe the second.  A sampling
profile then says where one process of the judge spends its time.  Results go
to benchmarks/results/judge.md; it takes about a minute.
"""

import argparse
import datetime
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeVar

from tqdm import tqdm

from stylerl.config import FilterConfig, JudgeConfig
from stylerl.corrupt import corrupt_style
from stylerl.data.corpus import Snippet, extract
from stylerl.judge import Judge, Source, Violation, pool
from stylerl.judge.engine import Engine, arguments
from stylerl.pipeline.machine import cpu

RESULTS = Path(__file__).parent / "results" / "judge.md"
COMMAND = str(Path(sys.executable).with_name("flake8"))
FORMAT = "--format=%(path)s\t%(row)d\t%(col)d\t%(code)s\t%(text)s"
CONFIG = JudgeConfig()
TURNS = 3  # of the judge and of the command over the folder
ROUNDS = 3  # of the profile over all snippets
RUFF = """preview = true
line-length = 79
[lint]
select = ["E", "W", "F"]
ignore = ["F821", "F822", "E226"]
"""
TICK = 0.001  # CPU seconds between two samples; the kernel may take more

Result = TypeVar("Result")
Findings = dict[str, list[Violation]]


class Speed(NamedTuple):
    """How long a number of sources took."""

    name: str
    sources: int
    clock: float  # seconds
    cpu: float  # seconds, all processes

    def row(self, reference: "Speed") -> str:
        """A line of the table."""
        each = self.cpu / self.sources
        ratio = each / (reference.cpu / reference.sources)
        return (
            f"| {self.name} | {self.sources} | {self.clock:.2f} | "
            f"{self.sources / self.clock:.1f} | {self.cpu:.2f} | "
            f"{1 / each:.1f} | {ratio:.2f} |"
        )


def main() -> None:
    """Measure, compare and write the results."""
    options = parse_options()
    snippets = draw_snippets(options.snippets)
    names = [f"s{number:05}.py" for number in range(len(snippets))]
    with tempfile.TemporaryDirectory() as folder:
        for name, snippet in zip(names, snippets, strict=True):
            Path(folder, name).write_bytes(snippet)
        turns = []
        for _ in range(TURNS):
            one, ours = time_judge(names, snippets, 1)
            many, again = time_judge(names, snippets, options.jobs)
            folder_one, theirs = time_folder(folder, len(names), 1)
            folder_many, last = time_folder(folder, len(names), options.jobs)
            ruff = time_ruff(folder, names, snippets)
            turns.append([one, many, folder_one, folder_many, ruff])
            for findings in (again, theirs, last):
                compare(ours, findings, names)
        single = time_single(folder, names[: options.single], ours)
    speeds = [
        min(speed, key=lambda each: each.clock)
        for speed in zip(*turns, strict=True)
    ]
    shares = profile(snippets)
    text = report(options, speeds, single, shares, ours)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text)
    print(text)


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--snippets", type=int, default=3000, metavar="N")
    parser.add_argument("--jobs", type=int, default=pool.cores(), metavar="N")
    parser.add_argument(
        "--single",
        type=int,
        default=40,
        metavar="N",
        help="snippets given to a flake8 command of their own",
    )
    return parser.parse_args()


def draw_snippets(count: int) -> list[bytes]:
    """Functions of installed packages, half of them corrupted."""
    rng = random.Random(0)
    paths = sorted(Path(sysconfig.get_path("purelib")).rglob("*.py"))
    rng.shuffle(paths)
    snippets: list[bytes] = []
    for path in paths:
        pieces = extract(path.read_bytes(), FilterConfig())
        found = [piece for piece in pieces if isinstance(piece, Snippet)]
        for snippet in rng.sample(found, min(len(found), 3)):
            text = snippet.text
            if rng.random() < 0.5:
                text, _ = corrupt_style(text, snippet.body_start, rng)
            snippets.append(text.encode())
        if len(snippets) >= count:
            break
    return snippets[:count]


def time_judge(
    names: list[str], snippets: list[bytes], jobs: int
) -> tuple[Speed, Findings]:
    """The judge, from a cold start of its processes to their end."""
    files = map(Source, snippets, names)

    def work() -> list[list[Violation]]:
        judge = Judge(CONFIG)
        verdicts = judge.judge_files(files, jobs)
        found = [list(verdict.violations) for verdict in verdicts]
        pool.shared_pool.cache_clear()  # its processes end
        return found

    found, clock, cpu = timed(work)
    speed = Speed(f"judge, jobs={jobs}", len(names), clock, cpu)
    return speed, dict(zip(names, found, strict=True))


def time_ruff(folder: str, names: list[str], snippets: list[bytes]) -> Speed:
    """The judge with ruff, on one core."""
    path = Path(folder, "ruff.toml")
    path.write_text(RUFF)
    files = [*map(Source, snippets, names)]
    judge = Judge(JudgeConfig(engine="ruff", config=str(path)))
    _, clock, cpu = timed(lambda: deque(judge.judge_files(files, 1), 0))
    path.unlink()
    return Speed("judge with ruff, jobs=1", len(files), clock, cpu)


def time_single(folder: str, names: list[str], ours: Findings) -> Speed:
    """A flake8 command for each snippet."""

    def command() -> Findings:
        theirs: Findings = {}
        for name in tqdm(names, desc="flake8 per snippet", unit="snippet"):
            theirs |= run_command(folder, name, jobs=1)
        return theirs

    theirs, clock, cpu = timed(command)
    compare(ours, theirs, names)
    return Speed("flake8 per snippet", len(names), clock, cpu)


def time_folder(folder: str, count: int, jobs: int) -> tuple[Speed, Findings]:
    """One flake8 command over the folder."""
    theirs, clock, cpu = timed(lambda: run_command(folder, ".", jobs))
    return Speed(f"flake8 -j{jobs} folder", count, clock, cpu), theirs


def run_command(folder: str, target: str, jobs: int) -> Findings:
    """The flake8 command's findings by file."""
    done = subprocess.run(
        [COMMAND, *arguments(CONFIG), FORMAT, f"-j{jobs}", target],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    found: Findings = defaultdict(list)
    for line in done.stdout.splitlines():
        path, row, col, code, text = line.split("\t", 4)
        name = path.removeprefix("./")
        found[name].append(Violation(int(row), int(col), code, text))
    return found


def compare(ours: Findings, theirs: Findings, names: list[str]) -> None:
    """Stop the benchmark where a verdict differs."""
    for name in names:
        if ours[name] != sorted(theirs.get(name, [])):
            raise SystemExit(
                f"{name}: the judge says {ours[name]}, and once more or by "
                f"the command {theirs.get(name)}"
            )


def timed(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """What `work` returns, its seconds, and its CPU seconds."""
    cpu, clock = cpu_seconds(), time.perf_counter()
    result = work()
    return result, time.perf_counter() - clock, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """CPU time of this process and of those it has waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(
            resource.getrusage,
            (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN),
        )
    )


def profile(snippets: list[bytes], rounds: int = ROUNDS) -> Counter[str]:
    """Samples by the package whose Python code was running.

    Time in C, such as a regular expression's, counts for its caller.
    """
    engine = Engine(CONFIG)
    samples: Counter[str] = Counter()

    def sample(signum: int, frame: FrameType | None) -> None:
        if frame is not None:
            samples[package(frame.f_code.co_filename)] += 1

    previous = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
    for _ in range(rounds):
        for snippet in snippets:
            engine.check(snippet)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, previous)
    return samples


def package(filename: str) -> str:
    """A source file's package, as the profile names it."""
    path = Path(filename)
    if path.stem == "pycodestyle":
        # flake8's generated list of calls has the same name.
        return "flake8" if "flake8" in path.parts else "pycodestyle"
    for name in ("pyflakes", "flake8", "stylerl"):
        if name in path.parts[-3:]:
            return name
    return {
        "tokenize.py": "tokenize (standard library)",
        "ast.py": "parsing (ast)",
    }.get(path.name, "the rest of the standard library")


def report(
    options: argparse.Namespace,
    speeds: list[Speed],
    single: Speed,
    shares: Counter[str],
    ours: Findings,
) -> str:
    """The results as Markdown."""
    one, many, folder_one, folder_many, ruff = speeds
    found = sum(map(len, ours.values()))
    clean = sum(not violations for violations in ours.values())
    total = sum(shares.values())
    own = (shares["pycodestyle"] + shares["pyflakes"]) / total
    per_core = (single.cpu / single.sources) / (one.cpu / one.sources)
    lines = [
        "# The judge against the flake8 command",
        "",
        f"`python benchmarks/bench_judge.py --snippets {len(ours)} "
        f"--jobs {options.jobs} --single {options.single}`, "
        f"{datetime.date.today()}, {machine()}",
        "",
        f"{len(ours)} functions of installed packages, half of them "
        f"corrupted: {clean} comply, {found} violations. All verdicts equal "
        "those of the flake8 command: row, column, code and words.",
        "",
        "| | snippets | clock, s | snippets/s | CPU, s | snippets/CPU s | "
        "CPU a snippet, judge = 1 |",
        "|---|---|---|---|---|---|---|",
        *(speed.row(one) for speed in [*speeds, single]),
        "",
        f"- (a) A core judges {per_core:.0f} times as many snippets as with "
        "a flake8 command for each: all "
        f"{len(ours)} would take that command "
        f"{single.clock / single.sources * len(ours):.0f} s "
        f"(extrapolated from {single.sources}).",
        "- (b) One flake8 command over the folder takes "
        f"{folder_one.cpu / one.cpu:.2f} times the judge's CPU time on one "
        f"core, {folder_many.cpu / many.cpu:.2f} times on {options.jobs}; "
        f"by the clock {folder_one.clock / one.clock:.2f} and "
        f"{folder_many.clock / many.clock:.2f} times.",
        f"- (c) With ruff the judge takes {ruff.cpu / one.cpu:.2f} of what it "
        "takes with flake8.",
        "",
        "Where a process of the judge spends its time "
        f"({total} samples; pycodestyle's and pyflakes' own: {own:.1%}):",
        "",
        "| | share |",
        "|---|---|",
        *(
            f"| {name} | {count / total:.1%} |"
            for name, count in shares.most_common()
        ),
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Processor, load and versions."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}"
        for name in ("flake8", "pycodestyle", "pyflakes", "ruff")
    )
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {cpu()}, load {load:.1f} while "
        f"measuring; Python {platform.python_version()}, {versions}"
    )


if __name__ == "__main__":
    main()
