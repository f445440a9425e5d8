"""Names and formats of an evaluation's numbers.

One description of each metric serves the terminal, the HTML report, the
guards and the Markdown of the orchestrator; docs/metrics.md defines them at
length.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

FEW_ENDED = 0.5  # of the completions
MODELS = {"base": "base", "sft": "SFT", "ppo": "PPO"}

Metrics = Mapping[str, Any]


class Metric(NamedTuple):
    """Name and format of one number of the table."""

    key: str
    label: str
    scale: float  # the number is shown times this
    digits: int
    better: int  # +1 more is better, -1 less is, 0 neither


TABLE = (
    Metric("residual_compliance", "after fixer, compliance %", 100, 1, 1),
    Metric("residual_violations", "after fixer, violations", 1, 2, -1),
    Metric("standardised_residual", "after fixer, SFT lengths", 100, 1, 1),
    Metric("residual_cut", "after fixer, cut %", 100, 1, 1),
    Metric("joint", "right and compliant %", 100, 1, 1),
    Metric("skill", "right % (HumanEval)", 100, 1, 1),
    Metric("skill_of_10", "one of 10 right %", 100, 1, 1),
    Metric("skill_greedy", "right %, greedy", 100, 1, 1),
    Metric("skill_style", "compliant % (HumanEval)", 100, 1, 1),
    Metric("skill_compliance", "compliant, of what is right %", 100, 1, 1),
    Metric("standardised_compliance", "compliance %, SFT lengths", 100, 1, 1),
    Metric("compliance", "compliance %", 100, 1, 1),
    Metric("non_compliance_cut", "non-compliance cut %", 100, 1, 1),
    Metric("non_trivial_compliance", "compliant, not trivial %", 100, 1, 1),
    Metric("score", "style score", 1, 3, 1),
    Metric("violations", "violations", 1, 2, -1),
    Metric("parse_rate", "parse rate %", 100, 1, 1),
    Metric("finished_rate", "finished %", 100, 1, 1),
    Metric("length", "length, tokens", 1, 1, 0),
    Metric("length_median", "length, median", 1, 1, 0),
    Metric("long_share", "bodies above 45 tokens %", 100, 1, 0),
    Metric("statements", "statements", 1, 2, 0),
    Metric("trivial_share", "trivial bodies %", 100, 1, -1),
    Metric("idle_share", "idle code %", 100, 1, -1),
    Metric("used_arguments", "arguments used %", 100, 1, 1),
    Metric("resolved_names", "names that resolve %", 100, 1, 1),
    Metric("distinct_3", "distinct-3 %", 100, 1, 0),
    Metric("repeated_lines", "repeated lines %", 100, 1, -1),
    Metric("comment_share", "comment lines %", 100, 1, -1),
    Metric("docstring_share", "docstrings %", 100, 1, 0),
    Metric("noqa_share", "noqa %", 100, 1, -1),
    Metric("copied_share", "prompt copied %", 100, 1, -1),
    Metric("kl", "KL to SFT, nats", 1, 2, 0),
    Metric("bits_per_byte", "bits per byte, human", 1, 3, -1),
    Metric("ruff", "ruff, in 10 lines", 1, 2, -1),
    Metric("flake8", "flake8, in 10 lines", 1, 2, -1),
    Metric("reformatted", "the fixer changes, % of lines", 100, 1, -1),
)


def measured(metrics: Metrics) -> list[Metric]:
    """The metrics of TABLE that an evaluation has; an older one lacks some."""
    models = [metrics[name] for name in (*labels(metrics), "gain")]
    return [m for m in TABLE if any(m.key in model for model in models)]


def labels(metrics: Metrics) -> Mapping[str, str]:
    """The label of each model: of MODELS, or of models from elsewhere."""
    named: Mapping[str, str] = metrics.get("labels", MODELS)
    return named


def rename(text: str, metrics: Metrics) -> str:
    """A text with SFT and PPO replaced by the labels of the models."""
    words = {MODELS[role]: label for role, label in labels(metrics).items()}
    return re.sub(
        r"\b(SFT|PPO)\b", lambda word: words.get(word[0], word[0]), text
    )


def metric_of(key: str) -> Metric:
    """The metric of a key."""
    return next(metric for metric in TABLE if metric.key == key)


def show(metric: Metric, value: float | None, signed: bool = False) -> str:
    """A value as the table prints it; a dash where there is none."""
    if value is None:
        return "–"
    text = f"{value * metric.scale:+.{metric.digits}f}"
    zero = text.strip("+-0.") == ""
    return text if signed and not zero else text.lstrip("+-" if zero else "+")


def show_models(metric: Metric, metrics: Metrics) -> list[str]:
    """The values of the models, as the tables show them."""
    return [show_own(metric, metrics[model]) for model in labels(metrics)]


def show_own(metric: Metric, metrics: Metrics) -> str:
    """A model's value, as the tables show it.

    Of one that ends few of its bodies nothing is said at SFT's lengths, where
    it wrote next to nothing.
    """
    few = metrics.get("finished_rate", 1.0) < FEW_ENDED
    if few and metric.key.startswith("standardised"):
        return show(metric, None)
    return show(metric, metrics.get(metric.key))


def show_gain(metric: Metric, gain: Metrics) -> str:
    """A difference with its interval, `+3.1 [+1.0, +5.2]`."""
    if metric.key not in gain:
        return "–"
    centre, low, high = (
        show(metric, gain[metric.key + end], signed=True)
        for end in ("", "_low", "_high")
    )
    return f"{centre} [{low}, {high}]"


def gain_sign(metric: Metric, gain: Metrics) -> int:
    """+1 a clear gain, -1 a clear loss, 0 neither, by the interval."""
    low = gain.get(f"{metric.key}_low", 0.0)
    high = gain.get(f"{metric.key}_high", 0.0)
    direction = (low > 0) - (high < 0)
    return direction * metric.better
