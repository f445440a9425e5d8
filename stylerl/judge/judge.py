"""The judge: source in, verdict out, through flake8.

    judge = Judge(JudgeConfig())
    judge.verdict("x=1\\n").violations[0].code   # "E225"

Every verdict equals what the flake8 command says of a file with the same
bytes and options and `--disable-noqa`: row, column and code.  flake8 runs in
worker processes that wait for the next source (stylerl.judge.pool); a source
that makes flake8 crash, or takes it longer than the limit, gets a verdict
that says so.
"""

import dataclasses
import hashlib
import itertools
import json
import platform
import re
from collections.abc import Iterable, Iterator, Sized
from configparser import Error, RawConfigParser
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError
from stylerl.judge.cache import VerdictCache
from stylerl.judge.pool import CRASHED, NOT_DONE, shared_pool
from stylerl.judge.verdict import SNIPPET, Verdict

File = tuple[bytes, str]  # content, path
BATCH = 1024  # sources a job that the cache looks up and writes at once
PREFIX = re.compile("[A-Z]{1,3}[0-9]{0,3}")
BAR_AFTER = 3.0  # seconds of work before the progress bar shows


class Pool(Protocol):
    """What does the work: this machine's processes, or a cluster's."""

    def size(self) -> int:
        """The jobs it can do at once."""

    def judge(self, sources: Iterable[File], jobs: int) -> Iterator[Verdict]:
        """The verdicts, in the order of the sources."""


class Judge:
    """flake8 under one configuration."""

    def __init__(
        self,
        config: JudgeConfig,
        cache: Path | None = None,
        pool: Pool | None = None,
    ) -> None:
        """Check what can be checked before flake8 starts.

        Args:
            config: the style guide.
            cache: a file that keeps verdicts for the next time; made where
                there is none.
            pool: who does the work; by default processes of this machine.

        Raises:
            ConfigError: a rule prefix is none, or the configuration file or
                a plugin is missing.
            DataError: the cache is some other file.
        """
        if config.config is not None:
            path = Path(config.config).absolute()
            config = dataclasses.replace(config, config=str(path))
        self.config = config
        self.versions = _versions(config)
        self._options = _options(config)
        self._cache = (
            None if cache is None else VerdictCache(cache, self.identity)
        )
        self._pool = pool

    def verdict(self, source: str | bytes, path: str = SNIPPET) -> Verdict:
        """Judge one source, as flake8 would a file that holds it.

        Args:
            source: text, which is judged as UTF-8, or bytes.
            path: the file's name, which per-file-ignores look at.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        (verdict,) = self.judge_files([(_encode(source), path)], jobs=1)
        return verdict

    def verdicts(
        self,
        sources: Iterable[str | bytes],
        jobs: int = 0,
        desc: str = "judge",
    ) -> Iterator[Verdict]:
        """Judge many sources; the verdicts come in the same order.

        Sources are read as workers need them: a stream of millions takes
        constant memory.

        Args:
            sources: texts or bytes.
            jobs: processes; 0 takes every core.
            desc: what the progress bar calls the work.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        total = len(sources) if isinstance(sources, Sized) else None
        pairs = ((_encode(source), SNIPPET) for source in sources)
        yield from tqdm(
            self.judge_files(pairs, jobs),
            desc=desc,
            unit="source",
            total=total,
            delay=BAR_AFTER,
        )

    def judge_files(
        self, files: Iterable[File], jobs: int = 0
    ) -> Iterator[Verdict]:
        """Judge (content, path) pairs in their order, without a bar.

        Raises:
            ConfigError: flake8 refuses the configuration.
            DataError: the cache is damaged.
        """
        pool = self._pool or shared_pool(self.config, self.identity)
        jobs = jobs or pool.size()
        if self._cache is None:
            return pool.judge(files, jobs)
        return _cached(self._cache, files, pool, jobs)

    @cached_property
    def identity(self) -> str:
        """16 hex digits that identify everything a verdict depends on.

        The versions of Python, flake8, its parts and the plugins, and the
        options; of a configuration file its content, not its path.
        """
        facts = json.dumps([self.versions, self._options], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _cached(
    cache: VerdictCache, files: Iterable[File], pool: Pool, jobs: int
) -> Iterator[Verdict]:
    """Judge batch by batch what the cache does not know."""
    for batch in _batches(files, BATCH * jobs):
        keys = [cache.key(*file) for file in batch]
        known = cache.read(keys)
        # Equal sources of a batch have one key, and are judged once.
        new = {
            key: file
            for key, file in zip(keys, batch, strict=True)
            if key not in known
        }
        verdicts = pool.judge(new.values(), jobs)
        found = dict(zip(new, verdicts, strict=True))
        cache.write((k, v) for k, v in found.items() if _is_lasting(v))
        known |= found
        yield from (known[key] for key in keys)


def _batches(files: Iterable[File], size: int) -> Iterator[list[File]]:
    remaining = iter(files)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def _is_lasting(verdict: Verdict) -> bool:
    """Whether the verdict is the same on every machine, and may be cached."""
    passing = (NOT_DONE, CRASHED)
    return not (verdict.reason or "").startswith(passing)


def _encode(source: str | bytes) -> bytes:
    """A text's bytes; a lone surrogate becomes bytes that are not UTF-8."""
    if isinstance(source, str):
        return source.encode("utf-8", "surrogatepass")
    return source


def _versions(config: JudgeConfig) -> dict[str, str]:
    """Versions by distribution, Python's own included."""
    versions = {"python": platform.python_version()}
    parts = ("flake8", "pycodestyle", "pyflakes", "mccabe")
    for name in (*parts, *sorted(config.plugins)):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            raise ConfigError(
                f"judge.plugins must name installed flake8 plugins; {name!r} "
                f"is not installed: pip install {name}"
            ) from error
    return versions


def _options(config: JudgeConfig) -> dict[str, object]:
    """The options as plain data: ours, or the configuration file's."""
    if config.config is None:
        _check_prefixes("select", config.select)
        _check_prefixes("ignore", config.ignore)
        return {
            "select": sorted(config.select),
            "ignore": sorted(config.ignore),
            "max_line_length": config.max_line_length,
        }
    parser = RawConfigParser()
    try:
        text = Path(config.config).read_text(encoding="utf-8")
        parser.read_string(text)
    except (OSError, UnicodeDecodeError, Error) as error:
        raise ConfigError(
            f"judge.config must be a configuration file; {config.config} "
            f"cannot be read: {error}"
        ) from error
    sections = [name for name in parser if name.startswith("flake8")]
    if not sections:
        raise ConfigError(
            "judge.config must be a file with a [flake8] section; "
            f"{config.config} has none"
        )
    return {name: dict(parser[name]) for name in sections}


def _check_prefixes(name: str, prefixes: tuple[str, ...]) -> None:
    """flake8 takes any text for a rule and would find nothing under it."""
    for prefix in prefixes:
        if not PREFIX.fullmatch(prefix):
            raise ConfigError(
                f"judge.{name} must list rules or their first characters, "
                f"such as E, W6 or F401; got {prefix!r}"
            )
