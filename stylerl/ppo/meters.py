"""Meters: sums over tokens, maxima, counts, and seconds by phase."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor


class Tally:
    """Means over every token seen, however the batches were cut."""

    def __init__(self) -> None:
        self.sums: defaultdict[str, float] = defaultdict(float)
        self.sizes: defaultdict[str, int] = defaultdict(int)
        self.maxima: dict[str, float] = {}
        self.counts: defaultdict[str, float] = defaultdict(float)

    def add(self, numbers: Mapping[str, Tensor]) -> None:
        """Take in one number a token, (N,) each; none of them padding."""
        for name, values in numbers.items():
            self.sums[name] += values.double().sum().item()
            self.sizes[name] += values.numel()

    def peak(self, name: str, values: Tensor) -> None:
        """Keep the largest of `values`, (N,), under `name`."""
        value = values.max().item()
        self.maxima[name] = max(value, self.maxima.get(name, value))

    def count(self, name: str) -> None:
        """Count an event."""
        self.counts[name] += 1

    def merge(self, other: "Tally") -> None:
        """Add what another tally saw."""
        for name in other.sums:
            self.sums[name] += other.sums[name]
            self.sizes[name] += other.sizes[name]
        for name in other.counts:
            self.counts[name] += other.counts[name]
        for name, value in other.maxima.items():
            self.maxima[name] = max(value, self.maxima.get(name, value))

    def numbers(self) -> dict[str, float]:
        """Means, maxima and counts by name."""
        means = {name: self.sums[name] / n for name, n in self.sizes.items()}
        return {**means, **self.maxima, **self.counts}


class Stopwatch:
    """Seconds by phase: `with watch("generate"): ...`."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time of the block to `phase`."""
        start = time.perf_counter()
        yield
        passed = time.perf_counter() - start
        self.spent[phase] = self.spent.get(phase, 0.0) + passed
