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

    @property
    def markdown(self) -> str:
        """A line of a list."""
        verdict = "held" if self.held else "**failed**"
        return f"- {self.name}: {verdict}, {self.text}"


def guards(metrics: Metrics) -> list[Guard]:
    """Whether PPO's gain cost parse rate, size, substance or distance."""
    sft, ppo, gain = (metrics[key] for key in ("sft", "ppo", "gain"))

    def not_worse(name: str, key: str) -> Guard:
        metric = metric_of(key)
        return Guard(
            name,
            gain_sign(metric, gain) >= 0,
            f"{show(metric, sft[key])}% to {show(metric, ppo[key])}%, "
            f"{show_gain(metric, gain)} points; it must not be clearly worse",
        )

    return [
        not_worse("parse rate", "parse_rate"),
        not_worse("finished", "finished_rate"),
        not_worse("trivial bodies", "trivial_share"),
        _near("median length", "length_median", SIZE_LIMIT, sft, ppo),
        _near("statements", "statements", SIZE_LIMIT, sft, ppo),
        _near("distinct-3", "distinct_3", DIVERSITY_LIMIT, sft, ppo),
        Guard(
            "KL to SFT",
            ppo["kl"] <= KL_LIMIT,
            f"{show_gain(metric_of('kl'), gain)} nats a response; the limit "
            f"is {KL_LIMIT:g}",
        ),
        _forgotten(sft, ppo),
        not_worse("repeated lines", "repeated_lines"),
        not_worse("comment lines", "comment_share"),
        not_worse("noqa", "noqa_share"),
        not_worse("copied prompts", "copied_share"),
    ]


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
