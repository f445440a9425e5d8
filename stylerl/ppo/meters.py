"""Metric sums over tokens and maxima, and seconds by phase."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class MetricSums:
    """Sums for metrics, independent of how the batches were cut.

    A mean of micro-batch means would weigh short responses more; here sums
    and counts are added up, over micro-batches and ranks, and divided once.
    A GPU is not waited for until they are read: see `on_host`.
    """

    def __init__(self) -> None:
        self.sums: dict[str, Any] = {}  # numbers, or tensors () of a device
        self.sizes: defaultdict[str, int] = defaultdict(int)
        self.maxima: dict[str, Any] = {}

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Add one value for each token, (N,) each, without padding."""
        for name, numbers in values.items():
            total = numbers.detach().double().sum()
            self.sums[name] = self.sums.get(name, 0.0) + total
            self.sizes[name] += numbers.numel()

    def maximum(self, name: str, values: Tensor) -> None:
        """Keep the largest of `values`, (N,), under `name`."""
        value = values.detach().max()
        old = self.maxima.get(name, value)
        self.maxima[name] = torch.maximum(value, old)

    def on_host(self) -> "MetricSums":
        """The sums as numbers: one transfer for sums, one for maxima."""
        host = MetricSums()
        host.sizes = self.sizes
        host.sums, host.maxima = map(_numbers, (self.sums, self.maxima))
        return host

    def merge(self, other: "MetricSums") -> None:
        """Add the sums of another micro-batch, step or rank."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.sizes[name] += other.sizes[name]
        for name, value in other.maxima.items():
            self.maxima[name] = max(value, self.maxima.get(name, value))

    def metrics(self) -> dict[str, float]:
        """Means and maxima by name."""
        means = {name: self.sums[name] / n for name, n in self.sizes.items()}
        return {**means, **self.maxima}


def _numbers(values: Mapping[str, Tensor]) -> dict[str, float]:
    """Tensors () of a device, read in one transfer."""
    if not values:
        return {}
    read = torch.stack([*values.values()]).tolist()
    return dict(zip(values, read, strict=True))


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
