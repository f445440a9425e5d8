"""Guards: what a gain in style must not have cost.

A policy that breaks one does not become champion (promotion.py), and the
report says so in its first line.
"""

from typing import NamedTuple

from stylerl.evaluation.display import (
    Metrics,
    gain_sign,
    metric_of,
    show,
    show_gain,
)

KL_LIMIT = 15.0  # nats a response; docs/ppo-log.md, alarm "KL explosion"
SIZE_LIMIT = 0.2  # of SFT's length and statements
DIVERSITY_LIMIT = 0.1  # of SFT's distinct-3
FORGETTING_LIMIT = 0.1  # of SFT's bits per byte


class Guard(NamedTuple):
    """Something a gain in style must not have cost."""

    name: str
    held: bool
    text: str


def guards(metrics: Metrics) -> list[Guard]:
    """Whether PPO's gain cost parse rate, size, substance or distance."""
    sft, ppo = metrics["sft"], metrics["ppo"]
    kl = metric_of("kl")
    return [
        _not_worse("parse rate", "parse_rate", metrics),
        _not_worse("finished", "finished_rate", metrics),
        _not_worse("trivial bodies", "trivial_share", metrics),
        _near("median length", "length_median", SIZE_LIMIT, sft, ppo),
        _near("statements", "statements", SIZE_LIMIT, sft, ppo),
        _near("distinct-3", "distinct_3", DIVERSITY_LIMIT, sft, ppo),
        Guard(
            "KL to SFT",
            ppo["kl"] <= KL_LIMIT,
            f"{show_gain(kl, metrics['gain'])} nats a response; the limit is "
            f"{KL_LIMIT:g}",
        ),
        _forgotten(sft, ppo),
        _not_worse("repeated lines", "repeated_lines", metrics),
        _not_worse("comment lines", "comment_share", metrics),
        _not_worse("noqa", "noqa_share", metrics),
        _not_worse("copied prompts", "copied_share", metrics),
    ]


def _not_worse(name: str, key: str, metrics: Metrics) -> Guard:
    metric = metric_of(key)
    before, after = (
        show(metric, metrics[model][key]) for model in ("sft", "ppo")
    )
    return Guard(
        name,
        gain_sign(metric, metrics["gain"]) >= 0,
        f"{before}% to {after}%, {show_gain(metric, metrics['gain'])} points; "
        "it must not be clearly worse",
    )


def _forgotten(sft: Metrics, ppo: Metrics) -> Guard:
    """A model may not unlearn human code for its style."""
    before, after = (model["bits_per_byte"] for model in (sft, ppo))
    return Guard(
        "bits per byte of human code",
        after <= before * (1 + FORGETTING_LIMIT),
        f"{before:.3f} to {after:.3f}, {100 * (after / before - 1):+.1f}%; "
        f"at most {100 * FORGETTING_LIMIT:.0f}% more",
    )


def _near(
    name: str, key: str, limit: float, sft: Metrics, ppo: Metrics
) -> Guard:
    before, after = sft[key], ppo[key]
    change = after / before - 1 if before else float(after != before)
    return Guard(
        name,
        abs(change) <= limit,
        f"{before:.3g} to {after:.3g}, {round(100 * change):+d}%; the limit "
        f"is {100 * limit:.0f}% either way",
    )
