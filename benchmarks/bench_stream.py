"""A stream of snippets through the judge: memory, speed, killed and resumed.

    python benchmarks/bench_stream.py [--snippets N] [--jobs N]

Short functions, all different, are made as they are needed and judged with a
cache of verdicts.  The process that does it is killed with SIGKILL at a third
of the way and started again; what it and its workers hold of memory is read
at every tenth.  Results go to benchmarks/results/stream.md.
"""

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from bench_judge import machine
from tqdm import tqdm

from stylerl.config import JudgeConfig
from stylerl.judge import Judge, pool

RESULTS = Path(__file__).parent / "results" / "stream.md"
TENTHS = 10


def main() -> None:
    """Stream, kill, stream again, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--snippets", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=pool.cores())
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cache:
        stream(options.snippets, options.jobs, options.cache)
        return
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "verdicts.sqlite"
        words = [
            *(sys.executable, __file__, "--cache", str(cache)),
            *("--snippets", str(options.snippets)),
            *("--jobs", str(options.jobs)),
        ]
        first, before = run(words, kill_at=0.3)
        rows, after = run(words, kill_at=2.0)
        size = cache.stat().st_size
    text = report(options, [*first, *rows], before, after, size)
    RESULTS.write_text(text)
    print(text)


def stream(count: int, jobs: int, cache: Path) -> None:
    """Judge, and print share done, own memory and the workers' in MiB."""
    judge = Judge(JudgeConfig(), cache)
    step = max(count // TENTHS, 1)
    files = tqdm(snippets(count), total=count, unit="snippet")
    for number, _ in enumerate(judge.judge_files(files, jobs), start=1):
        if number % step == 0:
            own = psutil.Process()
            sizes = [
                process.memory_info().rss / 2**20
                for process in [own, *own.children()]
            ]
            print(number / count, sizes[0], sum(sizes[1:]), flush=True)


def snippets(count: int) -> Iterator[tuple[bytes, str]]:
    """Functions of two lines, every other one with a violation."""
    for number in range(count):
        plus = "+ " if number % 2 else " + "
        text = f"def f{number}(value):\n    return value{plus}{number}\n"
        yield text.encode(), "snippet.py"


def run(words: list[str], kill_at: float) -> tuple[list[list[float]], float]:
    """What the process printed, and its seconds until its end or murder."""
    begun, rows = time.perf_counter(), []
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    for line in process.stdout:
        rows.append([float(word) for word in line.split()])
        if rows[-1][0] >= kill_at:
            process.kill()
            break
    process.wait()
    return rows, time.perf_counter() - begun


def report(
    options: argparse.Namespace,
    rows: list[list[float]],
    before: float,
    after: float,
    size: int,
) -> str:
    """The results as Markdown."""
    rate = options.snippets / (before + after)
    lines = [
        "# A stream of snippets through the judge",
        "",
        f"`python benchmarks/bench_stream.py --snippets {options.snippets} "
        f"--jobs {options.jobs}`, {datetime.date.today()}, {machine()}",
        "",
        f"{options.snippets} functions of two lines, with a cache of "
        f"verdicts ({size / 2**20:.0f} MiB in the end). Killed with SIGKILL "
        f"after {before:.0f} s, started again, done {after:.0f} s later: "
        f"{rate:.0f} snippets/s over both. MiB of memory:",
        "",
        "| done | the judging process | its workers together |",
        "|---|---|---|",
        *(f"| {done:.0%} | {own:.0f} | {w:.0f} |" for done, own, w in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
