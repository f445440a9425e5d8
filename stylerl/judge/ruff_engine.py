"""ruff on sources in memory: one process of it for many of them.

What is found, and where, is what `ruff check --ignore-noqa` finds in files of
the same bytes and names, run in the folder of the configuration.  ruff is a
program of its own that reads files, so the sources are written to a temporary
copy of the tree that they stand in, with no more of it than ruff looks at;
nothing else is ever written, whatever the configuration says of fixes, and no
source is executed.

A source that ends ruff is found by judging fewer and fewer at once.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError, DiskError, StylerlError, require
from stylerl.judge.pool import cores
from stylerl.judge.verdict import SNIPPET, SYNTAX, Verdict, Violation
from stylerl.judge.worker_process import describe_exit

NOT_DONE = "ruff was not done"  # reasons begin so; see stylerl.judge.pool
CRASHED = "ruff crashed"
BATCH = 256  # sources a process; with 64, starting it is a third of the time
PARTS = 16  # that a batch is cut into whose process did not end well
PYTHON = (".py", ".pyi", ".pyw")
LONGEST = 200  # bytes of a file's name, and times ten of its path
INIT = "__init__.py"
NO_TEXT = "stream did not contain valid UTF-8"  # ruff's words
BY_NAME = ("per_file_ignores", "per_file_target_version")
MEMORY = "/dev/shm"  # files there cost a tenth of those on a busy disk
# Rules that look at what stands beside a source on the disk.
BESIDE = ("EXE", "I0", "INP", "N999", "TC", "TID")


class Settings(NamedTuple):
    """What ruff makes of a configuration."""

    text: str  # all that a verdict depends on, as ruff shows it
    rules: frozenset[str]
    width: int  # columns
    roots: list[str]  # folders of the project's own modules
    excluded: list[str]  # patterns of files that are not linted
    warnings: list[str]

    @property
    def look_beside(self) -> bool:
        """Whether a verdict hangs on more than source, name and settings."""
        return any(rule.startswith(BESIDE) for rule in self.rules)


class Ruff:
    """ruff under one configuration; a pool, as stylerl.judge.judge has it."""

    def __init__(self, config: JudgeConfig) -> None:
        """Let ruff read its configuration.

        Args:
            config: its `config` is an absolute path.

        Raises:
            ConfigError: ruff refuses the configuration, it says nothing, or
                no rule is left that could be broken.
            MissingExtra: ruff is not installed.
        """
        require("ruff", "ruff")
        assert config.config is not None
        self._file = os.path.abspath(config.config)  # without `..`
        self._weights = config.weights
        self._limit = config.time_limit
        self.folder = os.path.dirname(self._file)
        self.versions = {"ruff": metadata.version("ruff")}
        self.settings = self.read_settings()

    def read_settings(self) -> Settings:
        """What ruff makes of the file now.

        Raises:
            ConfigError: as `__init__` says.
        """
        _check_section(self._file)
        words = ["--no-force-exclude", "--show-settings", self._file]
        done = self._run(words, self.folder)
        said = done.stderr.decode(errors="replace")
        if done.returncode != 0:
            raise ConfigError(
                f"judge.config must be what ruff takes; {self._file}: "
                f"{' '.join(' '.join(said.split('Cause: ')[-2:]).split())}"
            )
        shown = done.stdout.decode(errors="replace")
        text = shown.partition("# Linter Settings")[2]
        text = text.partition("# Formatter Settings")[0]
        # `name (CODE),` or, of a rule that has no code, `name,`
        rules = frozenset(
            line.strip("\t,)").rpartition("(")[2]
            for line in _block(text, "rules.enabled").splitlines()
        )
        if not rules:
            raise ConfigError(
                "judge.config must leave a rule that can be broken; "
                f"{self._file} selects none: select some"
            )
        for rule in self._weights:
            if not any(each.startswith(rule) for each in rules):
                raise ConfigError(
                    "judge.weights must name rules that can be reported; "
                    f"{self._file} selects none that begins with {rule}: "
                    "leave it out, or select it"
                )
        width = re.search(r"^linter\.line_length = (\d+)$", text, re.MULTILINE)
        return Settings(
            text,
            rules,
            int(width[1]) if width else 88,
            re.findall(r'"(.*)"', _block(text, "src")),
            re.findall(r'"(.*)"', _block(text, "exclude")),
            [line for line in said.splitlines() if line.startswith("warning")],
        )

    def facts(self) -> list[object]:
        """What a verdict depends on; the file is read anew.

        Where rules go by a file's name, the folder which that name is
        relative to is among them.
        """
        self.settings = self.read_settings()
        text = self.settings.text
        if all(f"linter.{rules} = {{}}" in text for rules in BY_NAME):
            text = text.replace(self.folder, ".")
        return [self.versions, text]

    def size(self) -> int:
        """The jobs that it can do at once."""
        return cores()

    def judge(
        self, sources: Iterable[tuple[bytes, str]], jobs: int
    ) -> Iterator[Verdict]:
        """The verdicts on (source, path) pairs, in their order.

        A path is relative to the configuration's folder.

        Raises:
            DiskError: the temporary files cannot be written.
        """
        remaining = iter(sources)
        while batch := list(itertools.islice(remaining, BATCH)):
            # Two files of one name need two trees.  An __init__.py that is
            # not on the disk has a tree of its own, where no other sees it.
            trees: dict[tuple[bool, bool, int], dict[str, int]]
            trees, seen = defaultdict(dict), Counter[str]()
            for number, (_, path) in enumerate(batch):
                name, real = self._place(path, number)
                lone = not real and name.endswith(f"/{INIT}")
                key = INIT if lone else name
                trees[real, lone, seen[key]][name] = number
                seen[key] += 1
            found: dict[int, Verdict] = {}
            for (real, _, _), tree in trees.items():
                files = {name: batch[n][0] for name, n in tree.items()}
                verdicts = self._check(files, real, jobs)
                found |= {tree[name]: each for name, each in verdicts.items()}
            yield from (found[number] for number in range(len(batch)))

    def list_files(self, paths: Sequence[str]) -> list[str]:
        """The Python files that ruff would check, as `ruff check` finds them.

        Args:
            paths: files and folders; of one that does not exist, its name.
        """
        given = [path for path in paths if path != "-"]
        exclude = [f"--extend-exclude={p}" for p in self.settings.excluded]
        there = [os.path.abspath(path) for path in given]
        done = self._run(["--show-files", *exclude, *there], self.folder)
        here = os.getcwd()
        found = {
            os.path.relpath(name, here) if name.startswith(here) else name
            for name in os.fsdecode(done.stdout).splitlines()
            if given and name.endswith(PYTHON)
        }
        others = {p for p in paths if p == "-" or not os.path.exists(p)}
        return sorted(found | others)

    def _place(self, path: str, number: int) -> tuple[str, bool]:
        """The absolute name a source is judged under; whether it exists."""
        nameless = f"{self.folder}/snippet{number}.py"
        name = os.path.abspath(os.path.join(self.folder, path))
        if path == SNIPPET or not name.isprintable():
            return nameless, False
        if not name.endswith(PYTHON):
            name += ".py"
        if os.path.isfile(name):
            return name, True
        lengths = [len(part.encode()) for part in name.split("/")]
        if max(lengths) > LONGEST or sum(lengths) > 10 * LONGEST:
            return nameless, False
        # A folder must not be called as another source's file may be.
        return (nameless if ".py/" in name else name), False

    def _check(
        self, files: Mapping[str, bytes], real: bool, jobs: int
    ) -> dict[str, Verdict]:
        """The verdicts by name; `files` are of one tree."""
        roots = self.settings.roots
        with _scratch(files) as folder:
            top = os.path.realpath(folder)
            _write(top, self.folder, files)
            if real:  # a file beside these in the tree is beside them there
                roots = [*roots, *(top + root for root in roots)]
            words = ["--ignore-noqa", "--exit-zero", "--output-format=json"]
            words += ["--no-fix", "--no-fix-only", "--no-force-exclude"]
            words += ["--config", f"src={json.dumps(roots)}"]
            words += [top + name for name in files]
            try:
                done = self._run(words, top + self.folder, jobs, self._limit)
                if done.returncode == 0:
                    return _read(done.stdout, top, files)
                reason = f"{CRASHED}: {describe_exit(done.returncode)}"
            except subprocess.TimeoutExpired:
                reason = f"{NOT_DONE} within {self._limit:g} s"
        if len(files) == 1:
            return dict.fromkeys(files, Verdict((), False, reason))
        size = -(-len(files) // PARTS)
        found: dict[str, Verdict] = {}
        for start in range(0, len(files), size):
            part = itertools.islice(files.items(), start, start + size)
            found |= self._check(dict(part), real, jobs)
        return found

    def _run(
        self,
        words: Sequence[str],
        folder: str,
        jobs: int = 1,
        limit: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        from ruff import find_ruff_bin

        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RUFF_")
        }
        command = ["check", "--no-cache", "--config", self._file, *words]
        try:
            return subprocess.run(
                [find_ruff_bin(), *command],
                cwd=folder,
                env=variables | {"RAYON_NUM_THREADS": str(jobs)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=limit,
            )
        except OSError as error:
            raise StylerlError(
                f"the judge must be able to start ruff: {error}"
            ) from error


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


def _scratch(
    files: Mapping[str, bytes],
) -> tempfile.TemporaryDirectory[str]:
    """A folder for some files: in memory, if there is plenty.

    Raises:
        DiskError: it cannot be made.
    """
    disk = None
    if os.access(MEMORY, os.W_OK):
        size = sum(map(len, files.values()))
        if shutil.disk_usage(MEMORY).free > 4 * size + 2**24:
            disk = MEMORY
    try:
        return tempfile.TemporaryDirectory(dir=disk)
    except OSError as error:
        raise _refusal(disk or tempfile.gettempdir(), error) from error


def _refusal(folder: str, error: OSError) -> DiskError:
    return DiskError(
        "the judge must be able to write temporary files for ruff; "
        f"{folder}: {error.strerror}"
    )


def _write(top: str, folder: str, files: Mapping[str, bytes]) -> None:
    """Write a tree below `top`, and what of the disk's ruff looks at.

    That is which folders are packages, and which files are executable.
    """
    try:
        os.makedirs(top + folder, exist_ok=True)
        for name, source in files.items():
            path = Path(top + name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
            if os.access(name, os.X_OK):
                path.chmod(0o700)
        for parent in {os.path.dirname(name) for name in files}:
            for each in (Path(parent), *Path(parent).parents):
                if not (each / INIT).is_file():
                    break
                Path(f"{top}{each}/{INIT}").touch()
    except OSError as error:
        raise _refusal(top, error) from error


def _read(
    answer: bytes, top: str, files: Mapping[str, bytes]
) -> dict[str, Verdict]:
    """ruff's answer as verdicts by name."""
    found: dict[str, list[Violation]] = {name: [] for name in files}
    for each in json.loads(answer):
        row, column = each["location"]["row"], each["location"]["column"]
        code = each["code"] or each.get("name") or SYNTAX[1]
        name = each["filename"].removeprefix(top)
        text = each["message"].replace(top, "")
        found[name].append(Violation(row, column, code, text))
    return {
        name: _verdict(sorted(violations), files[name])
        for name, violations in found.items()
    }


def _verdict(violations: Sequence[Violation], source: bytes) -> Verdict:
    """A verdict that says why, if ruff could not read the source."""
    reasons = [
        f"{each.code} {each.text}"
        for each in violations
        if each.code.startswith(SYNTAX)
    ]
    try:
        source.decode()
    except UnicodeDecodeError:
        reasons = [f"E902 {NO_TEXT}"]
    reason = reasons[0] if reasons else None
    return Verdict(tuple(violations), reason is None, reason)
