"""ruff on sources in memory, one process of it for each.

What is found, and where, is what `ruff check --ignore-noqa` finds in a file
of the same bytes and name, run in the folder of the configuration.  A source
goes to ruff's standard input, so nothing is written, whatever the
configuration says of fixes, and no source is executed.
"""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Any

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError, StylerlError
from stylerl.judge import worker_process
from stylerl.judge.pool import in_order
from stylerl.judge.verdict import SNIPPET, SYNTAX, Source, Verdict, Violation
from stylerl.judge.worker_process import describe_exit

PYTHON = (".py", ".pyi", ".pyw")


class Ruff:
    """ruff under one configuration; a pool, as stylerl.judge.judge has it."""

    def __init__(self, config: JudgeConfig) -> None:
        """Let ruff read its configuration.

        Args:
            config: its `config` is an absolute path.

        Raises:
            ConfigError: ruff refuses the configuration, it says nothing, or
                no rule is left that could be broken.
        """
        assert config.config is not None
        self._file = os.path.abspath(config.config)  # without `..`
        self.folder = os.path.dirname(self._file)
        _check_section(self._file)
        words = ["--no-force-exclude", "--show-settings", self._file]
        done = self._run(words)
        if done.returncode != 0:
            log = done.stderr.decode(errors="replace")
            raise ConfigError(
                f"judge.config must be what ruff takes; {self._file}: "
                f"{' '.join(' '.join(log.split('Cause: ')[-2:]).split())}"
            )
        shown = done.stdout.decode(errors="replace")
        text = shown.partition("# Linter Settings")[2]
        # All that a verdict depends on, and what the fixer's format does.
        self._text, _, self.format = text.partition("# Formatter Settings")
        # `name (CODE),` or, of a rule that has no code, `name,`
        self.rules = frozenset(
            line.strip("\t,)").rpartition("(")[2]
            for line in _block(self._text, "rules.enabled").splitlines()
        )
        if not self.rules:
            raise ConfigError(
                "judge.config must leave a rule that can be broken; "
                f"{self._file} selects none: select some"
            )
        width = re.search(
            r"^linter\.line_length = (\d+)$", self._text, re.MULTILINE
        )
        self.width = int(width[1]) if width else 88  # columns

    def facts(self) -> list[object]:
        """What a verdict depends on; files lie in the folder, wherever."""
        text = self._text.replace(self.folder, ".")
        return [{"ruff": metadata.version("ruff")}, text]

    def judge(self, sources: Iterable[Source], jobs: int) -> Iterator[Verdict]:
        """The verdicts on sources, in their order.

        A path is relative to the configuration's folder.
        """
        return in_order(self._verdict, sources, jobs)

    def list_files(self, paths: Sequence[str]) -> list[str]:
        """The Python files that ruff would check, as it finds them.

        Args:
            paths: files and folders; of one that does not exist, its name.
        """
        there = [os.path.abspath(path) for path in paths if path != "-"]
        listed = ""
        if there:
            words = ["--show-files", "--no-force-exclude", *there]
            listed = os.fsdecode(self._run(words).stdout)
        files = {
            os.path.relpath(name)
            for name in listed.split("\n")
            if name.endswith(PYTHON)
        }
        others = {p for p in paths if p == "-" or not os.path.exists(p)}
        return sorted(files | others)

    def _verdict(self, asked: Source) -> Verdict:
        source, path, _ = asked
        name = self._name(path)
        words = ["--ignore-noqa", "--exit-zero", "--output-format=json"]
        words += ["--no-fix", "--no-fix-only", "--no-force-exclude"]
        words += ["--stdin-filename", name, "-"]
        limit = worker_process.TIME_LIMIT
        try:
            done = self._run(words, source, limit)
        except subprocess.TimeoutExpired:
            return Verdict((), False, f"ruff was not done within {limit:g} s")
        if done.returncode != 0:
            reason = f"ruff crashed: {describe_exit(done.returncode)}"
            lines = done.stderr.decode(errors="replace").split("\n")
            causes = [line for line in map(str.strip, lines) if line]
            if done.returncode > 0 and causes:
                reason = f"ruff failed: {causes[-1]}"
            return Verdict((), False, reason)
        return _read(done.stdout)

    def _name(self, path: str) -> str:
        """The absolute name that a source is judged under."""
        name = os.path.abspath(os.path.join(self.folder, path))
        if path == SNIPPET or not name.isprintable():
            return f"{self.folder}/snippet.py"
        return name if name.endswith(PYTHON) else f"{name}.py"

    def _run(
        self,
        words: Sequence[str],
        source: bytes = b"",
        limit: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return _start(
            ["check", "--no-cache", "--config", self._file, *words],
            cwd=self.folder,
            input=source,
            timeout=limit,
        )


def _start(
    words: Sequence[str], **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run ruff's program without the settings of the environment."""
    from ruff import find_ruff_bin

    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RUFF_")
    }
    return subprocess.run(
        [find_ruff_bin(), *words],
        env=variables | {"RAYON_NUM_THREADS": "1"},
        capture_output=True,
        **options,
    )


def run(words: Sequence[str], ends: Sequence[int] = (0,)) -> str:
    """What ruff's program prints; it must end with one of these codes.

    Raises:
        StylerlError: it does not answer.
    """
    done = _start(words)
    if done.returncode not in ends:
        reason = done.stderr.decode(errors="replace").strip()
        raise StylerlError(
            f"ruff must answer; it ended with code {done.returncode}: "
            f"{reason[:500]}"
        )
    return done.stdout.decode()


def _check_section(file: str) -> None:
    """Check that there is a configuration of ruff in a file.

    Raises:
        ConfigError: the file cannot be read, or has none.
    """
    try:
        with open(file, "rb") as opened:
            content = tomllib.load(opened)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            "judge.config must be a pyproject.toml or ruff.toml, where "
            f"judge.engine is ruff; {file} cannot be read: {error}"
        ) from error
    if file.endswith("pyproject.toml"):
        content = content.get("tool", {}).get("ruff", {})
    if not content:
        raise ConfigError(
            "judge.config must be a pyproject.toml with a [tool.ruff] "
            f"section, or a ruff.toml that sets something; {file} has nothing"
        )


def _block(text: str, name: str) -> str:
    """The lines of one list of ruff's settings."""
    return text.partition(f"linter.{name} = [\n")[2].partition("\n]")[0]


def _read(answer: bytes) -> Verdict:
    """ruff's answer, with the reason if it could not read the source."""
    violations = []
    for finding in json.loads(answer):
        row, column = finding["location"]["row"], finding["location"]["column"]
        code = finding["code"] or finding.get("name") or SYNTAX[1]
        violations.append(Violation(row, column, code, finding["message"]))
    violations.sort()
    reasons = [
        f"{finding.code} {finding.text}"
        for finding in violations
        if finding.code.startswith(SYNTAX)
    ]
    reason = reasons[0] if reasons else None
    return Verdict(tuple(violations), reason is None, reason)
