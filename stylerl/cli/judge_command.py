"""`stylerl judge PATH...`: the judge's verdicts on files and folders.

Exit codes: 0 every file complies, 1 some do not, 2 a file cannot be read or
an option makes no sense.
"""

import argparse
import errno
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flake8.discover_files import expand_paths
from tqdm import tqdm

from stylerl import config
from stylerl.cli.main import say
from stylerl.cli.options import changes
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError
from stylerl.judge.judge import BAR_AFTER, Judge
from stylerl.judge.pool import shared_pool
from stylerl.judge.verdict import Source, Verdict, Violation
from stylerl.report.markup import visible

STDIN = "stdin"  # what flake8 calls it


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code.

    Raises:
        ConfigError: an option breaks a rule, or the rules find nothing.
        DataError: there is no Python file below the paths.
    """
    given = changes(args.set)
    if args.config is not None:
        given["judge.config"] = args.config
    if others := [key for key in given if not key.startswith("judge.")]:
        raise ConfigError(
            "--set is of the section judge here, as judge.max_line_length=100;"
            f" got {others[0]}"
        )
    judge = Judge(config.override(Params(), given).judge)
    listed = list_files(args.paths, judge)
    sources = dict(readable(listed))
    verdicts = tqdm(
        judge.judge_files(sources.values()),
        desc="judge",
        unit="file",
        total=len(sources),
        delay=BAR_AFTER,
        disable=None,  # where no one looks
    )
    judged = []
    for name, verdict in zip(sources, verdicts, strict=True):
        judged.append((name, verdict))
        if args.format == "json":
            print(as_json(name, verdict))
    if args.format == "table":
        print(table(judged))
    if len(judged) < len(listed):
        return 2
    return exit_code([verdict for _, verdict in judged])


def readable(files: Iterable[str]) -> Iterator[tuple[str, Source]]:
    """Each file with its name; what cannot be read is said."""
    for path in files:
        name, place = path, os.path.abspath(path)
        if path == "-":
            name = place = STDIN
        try:
            content = read(path)
        except OSError as error:
            say(f"cannot read {visible(name)}: {error.strerror}")
            continue
        yield visible(name), Source(content, place)


def list_files(paths: Sequence[str], judge: Judge) -> list[str]:
    """The Python files that the engine would check, sorted, each once.

    Raises:
        ConfigError: flake8 refuses the configuration.
        DataError: there is none.
    """
    if judge.ruff:
        listed = judge.ruff.list_files(paths)
    else:
        options = shared_pool(judge.config, judge.identity).options()
        files = expand_paths(
            paths=paths,
            stdin_display_name=STDIN,
            filename_patterns=options["filename"],
            exclude=options["exclude"],
        )
        listed = sorted(set(files))
    if not listed:
        raise DataError(
            "there must be a Python file to judge; found none below "
            f"{', '.join(paths)}"
        )
    return listed


def read(path: str) -> bytes:
    """A file's bytes, or standard input's.

    Raises:
        OSError: it cannot be read.
    """
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        return sys.stdin.buffer.read()
    return Path(path).read_bytes()


def as_json(path: str, verdict: Verdict) -> str:
    """One line: path, parsed and why not, compliant, score, violations."""
    return json.dumps(
        {
            "path": path,
            "parsed": verdict.parsed,
            "reason": verdict.reason,
            "compliant": verdict.compliant,
            "score": verdict.score,
            "violations": [v._asdict() for v in verdict.violations],
        }
    )


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """0 clean, 1 violations, 2 a linter that failed.

    What does not parse has a violation that says so.
    """
    if any(not v.parsed and not v.violations for v in verdicts):
        return 2
    return int(not all(verdict.compliant for verdict in verdicts))


def table(judged: Sequence[tuple[str, Verdict]]) -> str:
    """The rules, the most frequent first, and the totals."""
    if not judged:
        return "0 files judged"
    by_rule: dict[str, list[tuple[str, Violation]]] = defaultdict(list)
    for path, verdict in judged:
        for violation in verdict.violations:
            by_rule[violation.code].append((path, violation))
    lines = []
    wide = max([5, *map(len, by_rule)]) + 2
    if by_rule:
        lines.append(f"{'rule':<{wide}}{'count':>7}{'files':>7}  first found")
    for code, places in sorted(
        by_rule.items(), key=lambda item: (-len(item[1]), item[0])
    ):
        path, first = places[0]
        files = len({path for path, _ in places})
        lines.append(
            f"{code:<{wide}}{len(places):>7}{files:>7}  "
            f"{path}:{first.row}:{first.col} {first.text}"
        )
    unparsed = [(path, v.reason) for path, v in judged if not v.parsed]
    for path, reason in unparsed:
        lines.append(f"not parsed: {path}: {reason}")
    compliant = sum(verdict.compliant for _, verdict in judged)
    score = sum(verdict.score for _, verdict in judged) / len(judged)
    return "\n".join(
        [
            *lines,
            f"{len(judged)} {'file' if len(judged) == 1 else 'files'}: "
            f"{compliant} compliant ({compliant / len(judged):.1%}), "
            f"{len(unparsed)} not parsed, "
            f"{sum(map(len, by_rule.values()))} violations, mean score "
            f"{score:.3f}",
        ]
    )
