"""`stylerl judge PATH...`: the judge's verdicts on files and folders.

Exit codes: 0 every file complies, 1 some do not, 2 a file cannot be read or
an option makes no sense.
"""

import argparse
import json
import os
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from flake8.discover_files import expand_paths
from tqdm import tqdm

from stylerl.config import JudgeConfig, Params, override
from stylerl.errors import ConfigError, DataError
from stylerl.judge.engine import Engine
from stylerl.judge.judge import BAR_AFTER, Judge
from stylerl.judge.verdict import Verdict, Violation

LISTED = 10  # files that flake8 could not read, named below the table


class Judged(NamedTuple):
    """One file: a verdict, or why it could not be read."""

    path: str
    verdict: Verdict | None
    problem: str | None = None


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code.

    Raises:
        ConfigError: an option is out of range or contradicts another.
        DataError: there is no Python file below the paths, or the cache is
            some other file.
    """
    if args.jobs < 0:
        raise ConfigError(
            f"--jobs must be at least 0, which is one a core; got {args.jobs}"
        )
    judge = Judge(configuration(args), args.cache)
    judged = []
    try:
        for file in judge_paths(args.paths, judge, args.jobs):
            judged.append(file)
            if file.verdict is None:
                print(f"stylerl: {file.problem}", file=sys.stderr)
            elif args.format == "json":
                print(as_json(file.path, file.verdict))
        if args.format == "table":
            print(table(judged))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_code(judged)


def configuration(args: argparse.Namespace) -> JudgeConfig:
    """The style guide that the options describe.

    Raises:
        ConfigError: an option is out of range or contradicts another.
    """
    if args.config is not None:
        if args.select is not None or args.max_line_length is not None:
            raise ConfigError(
                "--config brings its own rules and width; write --select "
                "and --max-line-length into the file, or leave it out"
            )
        return JudgeConfig(config=args.config)
    changes: dict[str, object] = {}
    if args.select is not None:
        changes["judge.select"] = args.select.replace(",", " ").split()
        changes["judge.ignore"] = []
    if args.max_line_length is not None:
        changes["judge.max_line_length"] = args.max_line_length
    return override(Params(), changes).judge


def judge_paths(
    paths: Iterable[str], judge: Judge, jobs: int = 0
) -> Iterator[Judged]:
    """Judge files, and folders as flake8 walks them; files that cannot be
    read come last.

    Args:
        paths: files and folders; of a folder, what flake8 would check.
        judge: its configuration file may exclude files.
        jobs: processes; 0 takes every core.

    Raises:
        ConfigError: flake8 refuses the configuration.
        DataError: there is no Python file below the paths.
    """
    files = python_files(paths, judge.config)
    unreadable: list[Judged] = []
    opened: deque[str] = deque()

    def contents() -> Iterator[tuple[bytes, str]]:
        for path in files:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                problem = f"cannot read {path}: {error.strerror}"
                unreadable.append(Judged(path, None, problem))
                continue
            opened.append(path)
            yield content, os.path.abspath(path)

    for verdict in tqdm(
        judge.judge_files(contents(), jobs),
        desc="judge",
        unit="file",
        total=len(files),
        delay=BAR_AFTER,
    ):
        yield Judged(opened.popleft(), verdict)
    yield from unreadable


def python_files(paths: Iterable[str], config: JudgeConfig) -> list[str]:
    """The files flake8 would check, sorted, each once.

    Raises:
        ConfigError: flake8 refuses the configuration.
        DataError: there is none.
    """
    options = Engine(config).options
    files = expand_paths(
        paths=list(paths),
        stdin_display_name=options.stdin_display_name,
        filename_patterns=options.filename,
        exclude=[*options.exclude, *options.extend_exclude],
    )
    found = sorted(set(files))
    if not found:
        raise DataError(
            "there must be a Python file to judge; found none below "
            f"{', '.join(paths)}"
        )
    return found


def as_json(path: str, verdict: Verdict) -> str:
    """One line: path, parsed, compliant, score, violations."""
    return json.dumps(
        {
            "path": path,
            "parsed": verdict.parsed,
            "compliant": verdict.compliant,
            "score": verdict.score,
            "violations": [found._asdict() for found in verdict.violations],
        }
    )


def exit_code(judged: Sequence[Judged]) -> int:
    """0 clean, 1 violations, 2 unreadable input."""
    verdicts = [file.verdict for file in judged if file.verdict]
    if len(verdicts) < len(judged):
        return 2
    return int(not all(verdict.compliant for verdict in verdicts))


def table(judged: Iterable[Judged]) -> str:
    """The rules, the most frequent first, and the totals."""
    read = [(file.path, file.verdict) for file in judged if file.verdict]
    if not read:
        return "0 files judged"
    found: dict[str, list[tuple[str, Violation]]] = defaultdict(list)
    for path, verdict in read:
        for each in verdict.violations:
            found[each.code].append((path, each))
    lines = []
    if found:
        lines.append(f"{'rule':<7}{'count':>7}{'files':>7}  first found")
    for code, places in sorted(
        found.items(), key=lambda item: (-len(item[1]), item[0])
    ):
        path, first = places[0]
        files = len({path for path, _ in places})
        lines.append(
            f"{code:<7}{len(places):>7}{files:>7}  "
            f"{path}:{first.row}:{first.col} {first.text}"
        )
    unparsed = [(path, v.reason) for path, v in read if not v.parsed]
    for path, reason in unparsed[:LISTED]:
        lines.append(f"not parsed: {path}: {reason}")
    if len(unparsed) > LISTED:
        lines.append(f"and {len(unparsed) - LISTED} more")
    compliant = sum(verdict.compliant for _, verdict in read)
    score = sum(verdict.score for _, verdict in read) / len(read)
    return "\n".join(
        [
            *lines,
            f"{len(read)} {'file' if len(read) == 1 else 'files'}: "
            f"{compliant} compliant ({compliant / len(read):.1%}), "
            f"{len(unparsed)} not parsed, "
            f"{sum(map(len, found.values()))} violations, mean score "
            f"{score:.3f}",
        ]
    )
