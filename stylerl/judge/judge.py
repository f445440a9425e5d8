"""The judge: source in, verdict out, through flake8 or ruff.

    judge = Judge(JudgeConfig())
    judge.verdict("x=1\\n").violations[0].code   # "E225"

Every verdict equals what the engine's command says of a file with the same
bytes and options and no `noqa`: row, column and code.  flake8 runs in worker
processes that wait for the next source (stylerl.judge.pool), ruff in one for
each source (stylerl.judge.ruff_engine); a source that makes either crash, or
takes it longer than the limit, gets a verdict that says so.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path

from tqdm import tqdm

from stylerl.config import JudgeConfig
from stylerl.judge import positions, ruff_engine
from stylerl.judge.fingerprint import digest, identify
from stylerl.judge.place import Completed, Place, Placed
from stylerl.judge.pool import cores, shared_pool
from stylerl.judge.verdict import SNIPPET, Source, Verdict

BAR_AFTER = 3.0  # seconds of work before the progress bar shows


class Judge:
    """An engine, flake8 or ruff, under one configuration."""

    def __init__(
        self, config: JudgeConfig, places: Mapping[str, Place] | None = None
    ) -> None:
        """Check what can be checked before flake8 starts.

        Args:
            config: the style guide.
            places: where the functions of some prompts stand, by prompt;
                completions of others are judged as files of their own.

        Raises:
            ConfigError: the configuration file or a plugin is missing, or
                ruff refuses the file.
        """
        if config.config is not None:
            path = Path(config.config).absolute()
            config = dataclasses.replace(config, config=str(path))
        self.config = config
        self.places = places or {}
        self.ruff: ruff_engine.Ruff | None = None
        # What a verdict depends on, in 16 hex digits.
        if config.engine == "ruff":
            self.ruff = ruff_engine.Ruff(config)
            self.identity = digest(self.ruff.facts())
        else:
            self.identity = identify(config)

    def verdict(self, source: str | bytes, path: str = SNIPPET) -> Verdict:
        """Judge one source, as flake8 would a file that holds it.

        Args:
            source: text, which is judged as UTF-8, or bytes.
            path: the file's name, which per-file-ignores look at.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        (verdict,) = self.judge_files([Source(_encode(source), path)])
        return verdict

    def verdicts(
        self,
        sources: Iterable[str | bytes],
        jobs: int = 0,
        desc: str = "judge",
    ) -> Iterator[Verdict]:
        """Judge many sources; the verdicts come in the same order.

        Args:
            sources: texts or bytes.
            jobs: processes; 0 takes every core.
            desc: what the progress bar calls the work.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        total = len(sources) if isinstance(sources, Sized) else None
        files = (Source(_encode(source)) for source in sources)
        verdicts = self.judge_files(files, jobs)
        yield from tqdm(verdicts, desc, total, delay=BAR_AFTER)

    def completions(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        desc: str = "judge",
    ) -> list[Verdict]:
        """Judge completions, each where its prompt stands.

        Args:
            prompts: those in `places`, and others.
            completions: one of each prompt.
            desc: what the progress bar calls the work.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        pairs = zip(prompts, completions, strict=True)
        items = [(self.places.get(p), p, c) for p, c in pairs]
        return self.in_place(items, desc)

    @property
    def width(self) -> int:
        """The columns that a line may have."""
        if self.ruff:
            return self.ruff.width
        return shared_pool(self.config, self.identity).options()["width"]

    def in_place(
        self, items: Sequence[Completed], desc: str = "judge"
    ) -> list[Verdict]:
        """Judge completions, each at a place; without one, as a file.

        Rows and columns are those of prompt and completion, the latter as
        flake8 counts them (positions.py), whoever judges.  Equal items are
        judged once.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        unique = [*dict.fromkeys(items)]
        waiting: deque[tuple[Placed | None, bytes]] = deque()

        def files() -> Iterator[Source]:
            for place, prompt, completion in unique:
                placed = place.put(completion) if place else None
                alone = Source(_encode(prompt + completion))
                source = placed.source if placed else alone
                waiting.append((placed, source.content))
                yield source

        settled = []
        verdicts = self.judge_files(files())
        for verdict in tqdm(verdicts, desc, len(unique), delay=BAR_AFTER):
            placed, source = waiting.popleft()
            if self.ruff:
                verdict = positions.count_as_flake8(source, verdict)
            settled.append(placed.settle(verdict) if placed else verdict)
        by_item = dict(zip(unique, settled, strict=True))
        return [by_item[item] for item in items]

    def judge_files(
        self, files: Iterable[Source], jobs: int = 0
    ) -> Iterator[Verdict]:
        """Judge sources in their order, without a bar.

        Raises:
            ConfigError: flake8 refuses the configuration.
        """
        pool = self.ruff or shared_pool(self.config, self.identity)
        return pool.judge(files, jobs or cores())


def _encode(source: str | bytes) -> bytes:
    """A text's bytes; a lone surrogate becomes bytes that are not UTF-8."""
    if isinstance(source, str):
        return source.encode("utf-8", "surrogatepass")
    return source
