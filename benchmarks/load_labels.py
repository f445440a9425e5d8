"""Many snippets labelled while the judge's workers are killed.

Made-up functions, one in five a duplicate, go through the function
of the stage `label`: once undisturbed, and once with a worker killed by
SIGKILL every so often.  Both tables must have the same digest.  Memory is
read each second: this process holds the table of labels and grows with it,
the workers must not grow.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import psutil

from stylerl.config import JudgeConfig
from stylerl.data import labels
from stylerl.judge import Judge
from stylerl.judge.worker_process import SCRIPT

TITLE = "Labelling while workers are killed"
SEED = 13
MIB = 2**20


class Run(NamedTuple):
    """One pass over all snippets."""

    seconds: float
    digest: str
    compliant: float
    killed: int
    memory: list[tuple[float, float]]  # MiB each second: process, workers


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a user may choose."""
    parser.add_argument("--snippets", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)


def measure(options: argparse.Namespace) -> str:
    """Label twice; what differed, and what it took."""
    if options.work:
        work(options.snippets)
        raise SystemExit
    calm = run(options.snippets, None)
    killed = run(options.snippets, options.every)
    if killed.digest != calm.digest:
        raise SystemExit(f"the tables differ:\n{calm}\n{killed}")
    return report(options, calm, killed)


def work(count: int) -> None:
    """The stage's function; the table's digest to standard output."""
    table = pd.DataFrame(snippets(count))
    judge = Judge(JudgeConfig())
    made = labels.label(labels.draw(table, count, SEED), judge, SEED, {})
    digest = hashlib.sha256()
    for row in made.itertuples(index=False):
        digest.update(repr(tuple(row)).encode())
    share = float(made["compliant"].mean())
    print(json.dumps([digest.hexdigest(), share]))


def snippets(count: int) -> Iterator[dict[str, Any]]:
    """Functions as people write them; one in five repeats an earlier one."""
    rng = random.Random(SEED)
    for number in range(count):
        if number and rng.random() < 0.2:
            text = function(rng.randrange(number))
        else:
            text = function(number)
        yield {
            "id": f"{number:016x}",
            "text": text,
            "body_start": text.index("\n") + 1,
            "split": "valid" if number % 10 == 0 else "train",
        }


def function(number: int) -> str:
    """One of as many functions as there are numbers."""
    rng = random.Random(number)
    verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
    lines = rng.sample(LINES, rng.randint(1, 5))
    body = "".join(lines).format(noun=noun, number=number)
    return (
        f"def {verb}_{noun}_{number}({noun}, limit={number % 97}):\n"
        f'    """{verb.title()} the {noun}."""\n'
        f"    total = []\n{body}    return total\n"
    )


def run(count: int, every: float | None) -> Run:
    """One pass in a process of its own, a worker killed now and then."""
    rng = random.Random(SEED)
    killed, memory = 0, []
    with tempfile.TemporaryDirectory() as folder:
        words = ["labels", "--snippets", str(count), "--work"]
        main = str(Path(__file__).with_name("bench_load.py"))
        started = last = time.monotonic()
        errors = Path(folder, "errors")
        process = subprocess.Popen(
            [sys.executable, main, *words],
            stdout=subprocess.PIPE,
            stderr=errors.open("w"),
            text=True,
        )
        while process.poll() is None:
            time.sleep(1)
            found = workers(process.pid)
            if not found:
                last = time.monotonic()  # of a worker that was not there
                continue
            memory.append((rss(process.pid), sum(map(rss, found))))
            if every and time.monotonic() - last >= every:
                psutil.Process(rng.choice(found)).kill()
                killed, last = killed + 1, time.monotonic()
        seconds = time.monotonic() - started
        assert process.stdout
        text = process.stdout.read()
        if process.returncode:
            raise SystemExit(errors.read_text()[-2000:])
    return Run(seconds, *json.loads(text), killed, memory)


def workers(parent: int) -> list[int]:
    """The processes that judge for another."""
    try:
        children = psutil.Process(parent).children()
        return [each.pid for each in children if str(SCRIPT) in each.cmdline()]
    except psutil.Error:
        return []


def rss(number: int) -> float:
    """MiB of memory of a process, 0 where it is gone."""
    try:
        return float(psutil.Process(number).memory_info().rss / MIB)
    except psutil.Error:
        return 0.0


def report(options: argparse.Namespace, calm: Run, killed: Run) -> str:
    """What came of it."""
    rows = [
        f"| {name} | {run.seconds:.0f} | {run.killed} "
        f"| {at(run, 0.1, 0)} | {at(run, 0.5, 0)} | {at(run, 1, 0)} "
        f"| {at(run, 0.1, 1)} | {at(run, 0.5, 1)} | {at(run, 1, 1)} |"
        for name, run in (("undisturbed", calm), ("killed", killed))
    ]
    return "\n".join(
        [
            f"{options.snippets} snippets through the function of the stage "
            f"`label`, {calm.compliant:.1%} of them compliant; a worker "
            f"killed every {options.every:g} s. Both tables have the digest "
            f"{calm.digest[:16]}. MiB of memory at a tenth, half and the end "
            "of judging: the process, which holds the table, and its "
            "workers together.",
            "",
            "| | seconds | killed | process | | | workers | | |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
        ]
    )


def at(run: Run, share: float, which: int) -> str:
    """Memory at a share of the time of judging, the median of its tenth."""
    end = max(round(share * len(run.memory)), 1)
    part = run.memory[max(end - len(run.memory) // 10 - 1, 0) : end]
    return f"{sorted(pair[which] for pair in part)[len(part) // 2]:.0f}"


VERBS = ["load", "parse", "merge", "split", "count", "render", "check"]
NOUNS = ["record", "header", "table", "token", "window", "buffer", "price"]
LINES = [
    "    for item in {noun}:\n        total.append(item)\n",
    "    if limit > {number}:\n        return None\n",
    "    value = len({noun}) + {number}\n    total.append(value)\n",
    "    names = [each.strip() for each in {noun}]\n    total += names\n",
    "    with open('{noun}{number}') as file:\n"
    "        total.append(file.read())\n",
    "    try:\n        total.append({noun}[{number}])\n"
    "    except IndexError:\n        pass\n",
    "    while len(total) < {number} % 7:\n        total.append('{noun}')\n",
    "    total.append({{'{noun}': {number}, 'limit': limit}})\n",
]
