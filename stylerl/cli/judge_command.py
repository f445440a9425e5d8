"""`stylerl judge PATH...`: the judge's verdicts on files and folders.

Exit codes: 0 every file complies, 1 some do not, 2 a file cannot be read or
an option makes no sense.
"""

import argparse
import json
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
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
    judged = judge_paths(args.paths, judge, args.jobs)
    summary = Summary()
    try:
        for file in judged:
            summary.add(file)
            if file.verdict is None:
                print(f"stylerl: {file.problem}", file=sys.stderr)
            elif args.format == "json":
                print(as_json(file.path, file.verdict))
        if args.format == "table":
            print(summary.table())
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return summary.exit_code()


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


class Summary:
    """Counts by rule, and what the exit code depends on."""

    def __init__(self) -> None:
        self._files = 0
        self._compliant = 0
        self._score = 0.0
        self._unreadable = 0
        self._count: Counter[str] = Counter()
        self._in_files: Counter[str] = Counter()
        self._first: dict[str, tuple[str, Violation]] = {}
        self._unparsed = 0
        self._problems: list[str] = []  # of the first that do not parse

    def add(self, judged: Judged) -> None:
        """Count one file."""
        if judged.verdict is None:
            self._unreadable += 1
            return
        self._files += 1
        self._compliant += judged.verdict.compliant
        self._score += judged.verdict.score
        for violation in judged.verdict.violations:
            self._count[violation.code] += 1
            self._first.setdefault(violation.code, (judged.path, violation))
        self._in_files.update({v.code for v in judged.verdict.violations})
        if not judged.verdict.parsed:
            self._unparsed += 1
            if len(self._problems) < LISTED:
                problem = f"{judged.path}: {judged.verdict.reason}"
                self._problems.append(problem)

    def exit_code(self) -> int:
        """0 clean, 1 violations, 2 unreadable input."""
        if self._unreadable:
            return 2
        return int(self._compliant < self._files)

    def table(self) -> str:
        """The rules, the most frequent first, and the totals."""
        lines = []
        if self._count:
            lines.append(f"{'rule':<7}{'count':>7}{'files':>7}  first found")
        for code, count in sorted(
            self._count.items(), key=lambda item: (-item[1], item[0])
        ):
            path, first = self._first[code]
            where = f"{path}:{first.row}:{first.col}"
            lines.append(
                f"{code:<7}{count:>7}{self._in_files[code]:>7}  {where} "
                f"{first.text}"
            )
        lines += [f"not parsed: {problem}" for problem in self._problems]
        if self._unparsed > LISTED:
            lines.append(f"and {self._unparsed - LISTED} more")
        return "\n".join([*lines, self._totals()])

    def _totals(self) -> str:
        if not self._files:
            return "0 files judged"
        files = "file" if self._files == 1 else "files"
        share = self._compliant / self._files
        return (
            f"{self._files} {files}: {self._compliant} compliant "
            f"({share:.1%}), {self._unparsed} not parsed, "
            f"{sum(self._count.values())} violations, mean score "
            f"{self._score / self._files:.3f}"
        )
