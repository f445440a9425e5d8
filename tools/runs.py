"""What the benchmarks kept of runs and evaluations, and means over seeds."""

import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from stylerl import storage
from stylerl.errors import DataError
from stylerl.evaluation import guards
from stylerl.evaluation.display import Metric, show

BEST = "linter_best_of_2"  # the linter's pick of the default's two, of SFT
RUNS = Path(__file__).resolve().parent.parent / "benchmarks/results/runs"


def kept_runs(kind: str = "seed") -> dict[str, Any]:
    """What the benchmarks kept of one kind, by their seeds.

    Args:
        kind: seed, of today's default; strict, under examples/strict.toml;
            or a name of benchmarks/bench_baselines.py.
    """
    return {
        path.stem.replace(f"{kind}-", "seed "): storage.read_json(path)
        for path in sorted(RUNS.glob(f"{kind}-[0-9].json"))
    }


def whole_runs(kind: str = "seed") -> dict[str, Any]:
    """What the evaluation of each of `kept_runs` measured."""
    return {name: run["evaluate"] for name, run in kept_runs(kind).items()}


def longest() -> dict[str, Any]:
    """The run that took most, of those that were timed.

    Raises:
        DataError: none was.
    """
    timed = [run for run in kept_runs().values() if run["seconds"]]
    if not timed:
        raise DataError(
            f"no run in {RUNS} was timed: make one in a clean clone"
        )
    return max(timed, key=lambda run: run["seconds"])


def pooled(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Means over runs, and an interval over them of each difference.

    Raises:
        DataError: an interval needs two.
    """
    if len(runs) < 2:
        raise DataError(
            f"a mean over seeds needs two runs or more; got {len(runs)}: "
            f"{RUNS} holds what bench_run.py and bench_baselines.py keep"
        )
    parts: dict[str, dict[str, float]] = {}
    first = next(iter(runs.values()))
    for model in first.keys() & {"base", "sft", "ppo", "human", BEST, "gain"}:
        values = [run[model] for run in runs.values()]
        parts[model] = {
            key: statistics.fmean(value[key] for value in values)
            for key in values[0]
            if all(isinstance(value.get(key), float | int) for value in values)
        }
    gains = [run["gain"] for run in runs.values()]
    quantile = float(student.ppf(0.975, len(gains) - 1))
    for key in [key for key in parts["gain"] if f"{key}_low" in parts["gain"]]:
        spread = statistics.stdev(gain[key] for gain in gains)
        half = quantile * spread / math.sqrt(len(gains))
        parts["gain"][f"{key}_low"] = parts["gain"][key] - half
        parts["gain"][f"{key}_high"] = parts["gain"][key] + half
    return parts


def starred(metric: Metric, gain: Mapping[str, Any]) -> str:
    """A difference, with a star where its interval leaves out zero."""
    clear = gain[f"{metric.key}_low"] > 0 or gain[f"{metric.key}_high"] < 0
    return show(metric, gain[metric.key], signed=True) + "*" * clear


def checks(metrics: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each goal was reached, and each guard held."""
    asked = (*guards.goals(metrics), *guards.guards(metrics))
    return {each.name: each.held for each in asked}


def failed_guards(metrics: Mapping[str, Any]) -> str:
    """Which guards failed, as a cell of a table."""
    failed = [each.name for each in guards.guards(metrics) if not each.held]
    return ", ".join(failed) or "none"


def failures(metrics: Mapping[str, Any]) -> str:
    """What was missed or failed, as a cell of a table."""
    held = checks(metrics)
    return ", ".join(name for name in held if not held[name]) or "none"
