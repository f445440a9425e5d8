"""A body judged in its file: the same verdict, at which price?

    python benchmarks/bench_context.py --cases 1000

Puts bodies into the files of data/corpus.parquet: the authors' own, corrupted
ones, those of other functions (whose names are not there), and broken ones.
Each is judged in the whole file and as `Place.put` would have it judged, and
each verdict must be the same in row, column and code, under every rule of
flake8's own plugins.  Prints milliseconds of one core a completion beside
those of the judge without a file.
"""

import argparse
import ast
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from stylerl.config import FilterConfig, JudgeConfig
from stylerl.corrupt import corrupt_style
from stylerl.corrupt.syntax_errors import break_syntax
from stylerl.data import corpus
from stylerl.judge.engine import Engine
from stylerl.judge.outline import outline
from stylerl.judge.place import File, Place, Placed
from stylerl.judge.verdict import Verdict

RULES = """[flake8]
select = E,W,F,C90
ignore = W503
max-complexity = 2
max-doc-length = 72
"""
FILES = 300  # of the corpus, drawn at random
LOOKS: list[float] = []  # seconds an outline took


class Case(NamedTuple):
    """A completion of a function's header, and where it stands."""

    place: Place
    kind: str
    prompt: str
    completion: str


def main() -> None:
    """Compare, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    every = [*cases(Path("data/corpus.parquet"), options.seed)]
    rng = random.Random(options.seed)
    drawn = rng.sample(every, min(options.cases, len(every)))
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(RULES)
        file.flush()
        engine = Engine(JudgeConfig(config=file.name))
        differing = [case for case in drawn if differs(case, engine)]
    kinds = Counter(case.kind for case in drawn)
    print(f"{len(drawn)} cases ({dict(kinds)}): {len(differing)} differ")
    for case in differing[:5]:
        print(case.kind, case.place.file.path, repr(case.completion))
    measure(drawn, Engine(JudgeConfig()))


def cases(path: Path, seed: int) -> Iterator[Case]:
    """Bodies of every kind for the functions of some files."""
    rng = random.Random(seed)
    table = pq.read_table(path, columns=["path", "content"])
    rows = sorted(rng.sample(range(table.num_rows), FILES))
    found = []
    for row in table.take(rows).to_pylist():
        extraction = corpus.extract(row["content"], FilterConfig())
        if not extraction.snippets:
            continue
        text = row["content"].decode().replace("\r\n", "\n")
        start = time.process_time()
        whole = outline(ast.parse(text), text, row["path"])
        LOOKS.append(time.process_time() - start)
        file = File(text.split("\n"), row["path"], whole)
        for cut in extraction.snippets:
            head = cut.text[: cut.body_start]
            place = Place(file, cut.line, cut.text, head)
            found.append((place, cut.text, cut.body_start))
    others = [text[start:] for _, text, start in found]
    for place, text, start in found:
        for kind, body in bodies(text, start, others, rng):
            yield Case(place, kind, text[:start], body)


def bodies(
    text: str, start: int, others: list[str], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """One body of each kind for a function."""
    own = text[start:]
    other = rng.choice(others)
    yield "author", own
    yield "corrupted", corrupt_style(text, start, rng)[0][start:]
    yield "other", other
    yield "other", corrupt_style(text[:start] + other, start, rng)[0][start:]
    yield "ends", own + rng.choice(["\n", "\n\n", "\n    \n", "    # a\n"])
    yield "no line end", own.rstrip("\n")
    broken = break_syntax(text, start, rng)
    yield "broken", broken[start:] if broken else own + "    ("
    yield "runs on", own + rng.choice(["\n\n", ""]) + "x = undefined\n"
    yield "shadows", shadowing(own, others, rng)


def shadowing(own: str, others: list[str], rng: random.Random) -> str:
    """A body that binds names which the modules around may bind."""
    names = [
        "os",
        "sys",
        "re",
        "json",
        "logging",
        "warnings",
        "Any",
        "np",
        "typing",
        "t",
    ]
    name, second = rng.sample(names, 2)
    first = rng.choice(
        [
            f"{name} = 1",
            f"for {name} in {second}:\n        pass",
            f"import {name}",
            f"{second} = {name} = {second}",
            f"def {name}():\n        return {second}",
            f"global {name}\n    {name} = {second}",
            f"del {name}",
        ]
    )
    return f"\n    {first}" + own


def differs(case: Case, engine: Engine) -> bool:
    """Whether the whole file's verdict is another."""
    rows = case.prompt.count("\n") + 1
    settled = [
        settle(case.place.put(case.completion, whole=whole), engine)
        for whole in (True, False)
    ]
    whole, quick = (
        [v[:3] for v in found.violations if v.row > rows] for found in settled
    )
    return whole != quick or settled[0].parsed != settled[1].parsed


def settle(placed: Placed, engine: Engine) -> Verdict:
    """The verdict on one completion."""
    return placed.settle(engine.check(placed.source, placed.path))


def measure(drawn: list[Case], engine: Engine) -> None:
    """Print milliseconds a completion, three ways in turn."""

    def alone(case: Case) -> None:
        engine.check((case.prompt + case.completion).encode())

    def placed(case: Case) -> None:
        settle(case.place.put(case.completion), engine)

    def in_file(case: Case) -> None:
        settle(case.place.put(case.completion, whole=True), engine)

    print(f"{1000 * sum(LOOKS) / len(LOOKS):6.2f} ms  an outline, once a file")
    few = drawn[:: max(1, len(drawn) // 60)]
    for _ in range(2):
        for name, way, some in (
            ("without a file, as before", alone, drawn),
            ("in place", placed, drawn),
            ("in the whole file", in_file, few),
        ):
            print(f"{milliseconds(way, some):6.2f} ms  {name}")
    print("in place, by kind:")
    for kind in sorted({case.kind for case in drawn}):
        same = [case for case in drawn if case.kind == kind]
        print(f"{milliseconds(placed, same):6.2f} ms  {kind}")


def milliseconds(way: Callable[[Case], None], drawn: Iterable[Case]) -> float:
    """CPU time of one call, on average."""
    start, count = time.process_time(), 0
    for count, case in enumerate(drawn, start=1):  # noqa: B007
        way(case)
    return 1000 * (time.process_time() - start) / max(1, count)


if __name__ == "__main__":
    main()
