"""The judge on sources that nobody should write: no traceback, no hang.

    python benchmarks/bench_hostile.py [--sources N] [--jobs N]

Real functions cut, spliced and filled with what breaks tools, and sources
made to exhaust a parser, lie in one folder beside a FIFO, a link that leads
nowhere and names that are no text.  `stylerl judge` must give a verdict on
each file and one line on each that is none, within the time limit that each
source has.  Results go to benchmarks/results/hostile.md.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench_judge import draw_snippets, machine

RESULTS = Path(__file__).parent / "results" / "hostile.md"
PIECES = [
    *(b"\0", b"\f", b"\r", b"\t", b"\\", b"\\\n", b"\xff", b"\xef\xbb\xbf"),
    *(b"'''", b'"', b"f'{", b"(" * 99, b"}", b"\n" * 9, b":=", b"# noqa\n"),
    *(b"# -*- coding: utf-7 -*-\n", b"# coding: none\n", b"\xe2\x80\xa8"),
    *("ｔyping".encode(), "\u202e".encode(), b"\x1a", b"lambda: ", b"async "),
]
# Made by size, to be too deep, too long or too many for something.
SHAPES: list[Callable[[int], bytes]] = [
    lambda n: b"(" * n,
    lambda n: b"x = " + b"[" * n + b"]" * n + b"\n",
    lambda n: b"x = " + b"-" * n + b"1\n",
    lambda n: b"f" + b".a" * n + b"\n",
    lambda n: b"x = " + b"a + " * n + b"a\n",
    lambda n: b"x = '" + b"\\" * n + b"'\n",
    lambda n: b"".join(b" " * i + b"if x:\n" for i in range(n % 300)),
    lambda n: b"x=1;" * n + b"\n",
    lambda n: b"x = 1" + b" " * 9 * n + b"\n",
    lambda n: b"\n" * n,
    lambda n: b"def f(" + b"a, " * n + b"): pass\n",
    lambda n: b"x = " + b"f'{" * n + b"1" + b"}'" * n + b"\n",
    lambda n: b"x = 9" + b"9" * 9 * n + b"\n",
    lambda n: random.Random(n).randbytes(n),
]


def main() -> None:
    """Write the sources, judge them, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sources", type=int, default=10_000, metavar="N")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, source in enumerate(hostile(options.sources)):
            (folder / f"s{number:05}.py").write_bytes(source)
        (folder / os.fsdecode(b"\xff.py")).write_bytes(b"x=1\n")
        os.mkfifo(folder / "fifo.py")
        (folder / "nowhere.py").symlink_to("gone")
        started = time.perf_counter()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "stylerl.cli.main", "judge"),
                *("--format", "json", "--jobs", str(options.jobs), name),
            ],
            capture_output=True,
            text=True,
        )
        took = time.perf_counter() - started
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    if (
        len(verdicts) != options.sources + 1
        or done.stderr.count("\n") != 2
        or done.returncode != 2
    ):
        raise SystemExit(
            f"exit code {done.returncode}, {len(verdicts)} verdicts:\n"
            f"{done.stderr[-2000:]}"
        )
    text = report(options, verdicts, took)
    RESULTS.write_text(text)
    print(text)


def hostile(count: int) -> list[bytes]:
    """The sources, the same ones each time."""
    rng = random.Random(13)
    real = draw_snippets(300)
    found = [
        shape(size) for shape in SHAPES for size in (99, 199, 999, 20_000)
    ]
    while len(found) < count:
        source = rng.choice(real)
        for _ in range(rng.choice([1, 1, 2, 4, 16])):
            cut = rng.randint(0, len(source))
            rest = rng.choice([cut, cut, cut + rng.randint(1, 40)])
            source = source[:cut] + rng.choice(PIECES) + source[rest:]
        found.append(source)
    return found[:count]


def report(
    options: argparse.Namespace, verdicts: list[dict[str, bool]], took: float
) -> str:
    """The results as Markdown."""
    ends = Counter("parse" if v["parsed"] else "do not" for v in verdicts)
    return (
        "# Hostile sources\n\n"
        f"`python benchmarks/bench_hostile.py --sources {options.sources} "
        f"--jobs {options.jobs}`, {datetime.date.today()}, {machine()}\n\n"
        f"{options.sources} hostile sources, a FIFO, a link to nothing and a "
        f"name that is no text: {len(verdicts)} verdicts in {took:.1f} s, no "
        "traceback, no hang, one line for each of the two that are no file. "
        f"{ends['parse']} parse, {ends['do not']} do not.\n"
    )


if __name__ == "__main__":
    main()
