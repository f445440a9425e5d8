"""Sources and parameter files that nobody should write.

Real functions cut, spliced and filled with what breaks tools, and sources
made to exhaust a parser, lie in one folder beside a FIFO, a link that leads
nowhere and names that are no text.  `stylerl judge` must give a verdict on
each file and one line on each that is none, within the time limit that each
source has.  The parameter files are those of tests/unit/
test_hostile_params.py, more of them: each must be read in seconds, and be
taken or refused with a ConfigError of one line.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench_judge import draw_snippets

from stylerl import config
from stylerl.errors import ConfigError

TITLE = "Hostile sources and parameter files"
TESTS = Path(__file__).parent.parent / "tests/unit"
SEED = 13
HANGS = 10  # seconds after which reading a parameter file is a hang
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a user may choose."""
    parser.add_argument("--sources", type=int, default=10_000, metavar="N")
    parser.add_argument("--files", type=int, default=1_000, metavar="N")


def measure(options: argparse.Namespace) -> str:
    """Judge the sources, read the parameter files; what came of both."""
    return f"{judged(options)}\n\n{loaded(options.files)}"


def judged(options: argparse.Namespace) -> str:
    """Write the sources and judge them."""
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
                *("--format", "json", name),
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
    ends = Counter("parse" if v["parsed"] else "do not" for v in verdicts)
    return (
        f"{options.sources} hostile sources, a FIFO, a link to nothing and a "
        f"name that is no text: {len(verdicts)} verdicts in {took:.1f} s, no "
        "traceback, no hang, one line for each of the two that are no file. "
        f"{ends['parse']} parse, {ends['do not']} do not."
    )


def loaded(count: int) -> str:
    """Read as many parameter files."""
    sys.path.insert(0, str(TESTS))
    from test_hostile_params import draw, one_line

    rng = random.Random(SEED)
    refused, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "params.yaml")
        for _ in range(count):
            path.write_bytes(draw(rng).encode("utf-8", "surrogatepass"))
            started = time.perf_counter()
            signal.alarm(HANGS)  # whose signal ends this process
            try:
                config.load(path)
            except ConfigError as error:
                refused += 1
                if not one_line(str(error)):
                    raise SystemExit(f"not one line: {error}") from error
            signal.alarm(0)
            slowest = max(slowest, time.perf_counter() - started)
    return (
        f"{count} hostile parameter files: {refused} refused with one line "
        f"of ours, {count - refused} taken, no traceback, no hang; the "
        f"slowest took {slowest:.2f} s."
    )


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
