"""The judge: source in, verdict out, through flake8."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import metadata

from tqdm import tqdm

from stylerl.config import JudgeConfig
from stylerl.flake8_engine import Engine
from stylerl.verdict import Verdict, Violation, style_score

__all__ = ["Judge", "Verdict", "Violation", "style_score"]


class Judge:
    """flake8 under one configuration."""

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._engine = Engine(config)

    def verdict(self, source: str | bytes) -> Verdict:
        """Judge one source, as flake8 would a file that holds it."""
        if isinstance(source, str):
            source = source.encode("utf-8", "surrogatepass")
        return self._engine.check(source)

    def verdicts(
        self, sources: Sequence[str], jobs: int = 0, desc: str = "judge"
    ) -> Iterator[Verdict]:
        """Judge many sources; the verdicts come in the same order."""
        for source in tqdm(sources, desc=desc, unit="source"):
            yield self.verdict(source)

    @cached_property
    def identity(self) -> str:
        """16 hex digits that change when the same source may be judged
        differently: flake8's, its parts' and Python's versions, options."""
        parts = ("flake8", "pycodestyle", "pyflakes")
        facts = {name: metadata.version(name) for name in parts}
        config = {
            "select": self.config.select,
            "ignore": self.config.ignore,
            "max_line_length": self.config.max_line_length,
        }
        text = json.dumps([facts, config], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
