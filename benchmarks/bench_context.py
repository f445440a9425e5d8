"""A body judged in its file: the same verdict, at which price?

    python benchmarks/bench_context.py --cases 1000
    python benchmarks/bench_context.py --cases 300 --real artifacts
    python benchmarks/bench_context.py --cases 1000 --authors artifacts

Puts bodies into the files of data/corpus.parquet, some of them in a branch or
under a star import: the authors' own, corrupted ones, those of other functions
(whose names are not there), and broken ones.  Each is judged in the whole file
and as `Place.put` would have it judged, and what the body is charged with must
be the same in row, column, code and words, under every rule of flake8's own
plugins.  Prints milliseconds of one core a completion beside those of the
judge without a file, and why some take the whole file.

With `--real`, a folder of a run's artifacts, it measures the completions that
its models wrote in the stage `evaluate`, and what its stage `label` judged.
With `--authors`, the same, it tells how many of its functions comply as their
authors wrote them, under all of E, W and F but flake8's default ignores: each
as a file of its own, in place, and in its whole file.
"""

import argparse
import ast
import dataclasses
import random
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from stylerl.config import FilterConfig, JudgeConfig
from stylerl.corrupt import corrupt_style
from stylerl.corrupt.syntax_errors import break_syntax
from stylerl.data import corpus, places
from stylerl.judge.engine import Engine
from stylerl.judge.outcome import attribute
from stylerl.judge.outline import outline, parse
from stylerl.judge.place import File, Place, Placed
from stylerl.judge.verdict import Verdict, Violation

RULES = """[flake8]
select = E,W,F,C90
ignore = W503
max-complexity = 2
max-doc-length = 72
"""
FILES = 300  # of the corpus, drawn at random
UNKNOWN = ("F821", "F822")  # names that nothing defines
LOOKS: list[float] = []  # seconds an outline took
# What the functions of a file may stand in, and under.
BRANCH = "if TYPE_CHECKING:\n{text}else:\n    import os, re, json, t\n"
OTHERWISE = "if t:\n    np = json = None\nelif os:\n{text}"
CAUGHT = "try:\n{text}except (Any, ImportError):\n    import os, re\n"
UNDER = [BRANCH, OTHERWISE, CAUGHT, "with np:\n{text}", "for t in os:\n{text}"]
FLUSH = ["\n# a", '\n    """a\nb\n    """', '\n    x = """\ny = 1\n"""']
STAR = "from os.path import *\n{text}"


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
    parser.add_argument("--real", type=Path, help="a run's artifacts")
    parser.add_argument("--authors", type=Path, help="a run's artifacts")
    options = parser.parse_args()
    if options.authors:
        drawn = [*authors(options.authors, options.cases, options.seed)]
        return compare(drawn)
    if options.real:
        drawn = [*real(options.real, options.cases, options.seed)]
        return measure(drawn, Engine(JudgeConfig()))
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
        text = nested(row["content"].decode().replace("\r\n", "\n"), rng)
        extraction = corpus.extract(text.encode(), FilterConfig())
        if not extraction.snippets:
            continue
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
        bound = [n for n, row in place.file.outline.names.items() if row]
        for kind, body in bodies(text, start, others, bound, rng):
            yield Case(place, kind, text[:start], body)


def real(run: Path, count: int, seed: int) -> Iterator[Case]:
    """Completions by each model of a run, and its labelled functions.

    As many of either as `count`.
    """
    wrote = pd.read_parquet(run / "evaluate" / "completions.parquet")
    named = wrote.rename(columns={"prompt_id": "source_id", "model": "kind"})
    labels = pd.read_parquet(run / "label" / "labels.parquet")
    labels = labels[labels["body_start"] > 0].assign(kind="labelled")
    labels["completion"] = [
        text[start:]
        for text, start in zip(
            labels["text"], labels["body_start"], strict=True
        )
    ]
    some = (
        pd.concat([named, labels])
        .groupby("kind")
        .sample(count, replace=True, random_state=seed)
    )
    cut = pd.read_parquet(run / "filter" / "snippets.parquet")
    cut = cut[cut["id"].isin(some["source_id"])].set_index("id", drop=False)
    found = places.places(run / "filter" / "files.parquet", cut)
    for row in some.drop_duplicates(["kind", "completion"]).itertuples():
        if place := found.get(row.source_id):
            text = "\n".join(place.file.lines)  # by this version's outline
            seen = outline(parse(text), text, place.file.path)
            place.file = dataclasses.replace(place.file, outline=seen)
            snippet = cut.loc[row.source_id]
            prompt = snippet["text"][: snippet["body_start"]]
            yield Case(place, row.kind, prompt, row.completion)


def authors(run: Path, count: int, seed: int) -> Iterator[Case]:
    """Functions of a run's stage `filter`, as their authors wrote them."""
    cut = pd.read_parquet(run / "filter" / "snippets.parquet")
    cut = cut[cut["body_start"] > 0].sample(count, random_state=seed)
    found = places.places(run / "filter" / "files.parquet", cut)
    for row in cut.itertuples():
        if place := found.get(row.id):
            head, body = row.text[: row.body_start], row.text[row.body_start :]
            yield Case(place, "author", head, body)


def compare(drawn: list[Case]) -> None:
    """Print how many bodies comply, and how many have unknown names."""
    rules = tuple(rule for rule in JudgeConfig().ignore if rule not in UNKNOWN)
    engine = Engine(JudgeConfig(ignore=rules))
    for name, way in {
        "alone": alone,
        "in place": placed,
        "in the whole file": in_file,
    }.items():
        charges = [
            attribute(
                case.prompt, True, way(case, engine).violations
            ).completion
            for case in drawn
        ]
        clean = sum(not each for each in charges) / len(drawn)
        unknown = sum(
            any(violation.code in UNKNOWN for violation in each)
            for each in charges
        )
        print(
            f"{name}: {clean:.1%} of {len(drawn)} comply, "
            f"{unknown / len(drawn):.1%} have F821 or F822",
            flush=True,
        )


def nested(text: str, rng: random.Random) -> str:
    """A file, one in eight within a statement, one in eight under a star."""
    kind = rng.randrange(8)
    if kind > 1 or "__future__" in text:
        return text
    if kind:
        return STAR.format(text=text)
    inside = textwrap.indent(text.rstrip("\n") + "\n", "    ")
    return rng.choice(UNDER).format(text=inside)


def bodies(
    text: str,
    start: int,
    others: list[str],
    bound: list[str],
    rng: random.Random,
) -> Iterator[tuple[str, str]]:
    """One body of each kind for a function; `bound` is what it may hide."""
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
    yield "shadows", shadowing(own, bound, rng)
    yield "hides", shadowing(own, bound and rng.sample(bound, 1) * 2, rng)
    yield "at column 0", rng.choice(FLUSH) + own


def shadowing(own: str, bound: list[str], rng: random.Random) -> str:
    """A body that binds names which the modules around may bind."""
    names = (
        bound
        if len(bound) > 1
        else [
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
    )
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
    """Whether it is charged with another thing in the whole file."""

    def charged(verdict: Verdict) -> tuple[bool, tuple[Violation, ...]]:
        found = attribute(case.prompt, True, verdict.violations)
        return verdict.parsed, found.completion

    whole, part = in_file(case, engine), placed(case, engine)
    return charged(whole) != charged(part)


def alone(case: Case, engine: Engine) -> Verdict:
    """The verdict on a completion and its prompt as a file of their own."""
    return engine.check((case.prompt + case.completion).encode())


def placed(case: Case, engine: Engine) -> Verdict:
    """The verdict on a completion in its file's skeleton, where that does."""
    return settle(case.place.put(case.completion), engine)


def in_file(case: Case, engine: Engine) -> Verdict:
    """The verdict on a completion in its whole file."""
    return settle(case.place.put(case.completion, whole=True), engine)


def settle(put: Placed, engine: Engine) -> Verdict:
    """The verdict on one completion."""
    return put.settle(engine.check(put.source, put.path))


def measure(drawn: list[Case], engine: Engine) -> None:
    """Print milliseconds a completion, three ways in turn."""
    if LOOKS:
        print(f"{1000 * sum(LOOKS) / len(LOOKS):6.2f} ms  an outline, a file")
    few = drawn[:: max(1, len(drawn) // 60)]
    for name, way, some in (
        ("without a file, as before", alone, drawn),
        ("in place", placed, drawn),
        ("in the whole file", in_file, few),
        ("without a file, again", alone, drawn),
    ):
        spent = milliseconds(way, some, engine)
        print(f"{spent:6.2f} ms  {name}", flush=True)
    print("in place, by kind:")
    for kind in sorted({case.kind for case in drawn}):
        same = [case for case in drawn if case.kind == kind]
        spent = milliseconds(placed, same, engine)
        print(f"{spent:6.2f} ms  {len(same)} {kind}")
    whole = Counter(c.place.put(c.completion).whole for c in drawn)
    for why, count in whole.most_common():
        share = f"{100 * count / len(drawn):6.2f} %"
        print(share, f"the whole file: {why}" if why else "a skeleton")


def milliseconds(
    way: Callable[[Case, Engine], Verdict],
    drawn: Iterable[Case],
    engine: Engine,
) -> float:
    """CPU time of one call, on average."""
    start, count = time.process_time(), 0
    for count, case in enumerate(drawn, start=1):  # noqa: B007
        way(case, engine)
    return 1000 * (time.process_time() - start) / max(1, count)


if __name__ == "__main__":
    main()
