"""Seconds by phase."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by phase: `with watch("generate"): ...`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time of the block to `phase`."""
        start = time.perf_counter()
        yield
        passed = time.perf_counter() - start
        self.seconds[phase] = self.seconds.get(phase, 0.0) + passed
