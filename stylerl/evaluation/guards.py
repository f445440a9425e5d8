"""Goals that a run sets out to reach, and guards against a gain's costs.

A policy that breaks a guard does not become champion (promotion.py).  A goal
decides nothing.  The report's first line names each that was missed.
"""

from typing import NamedTuple

from stylerl.evaluation.display import (
    Metrics,
    gain_sign,
    metric_of,
    show,
    show_gain,
)

CUT = metric_of("non_compliance_cut")
RESIDUAL = metric_of("residual_compliance")
RUFF = metric_of("ruff")
STANDARDISED = metric_of("standardised_compliance")
KL_LIMIT = 15.0  # nats a response; docs/ppo-log.md, alarm "KL explosion"
SIZE_LIMIT = 0.2  # of SFT's length and statements
DIVERSITY_LIMIT = 0.1  # of SFT's distinct-3
FORGETTING_LIMIT = 0.1  # of SFT's bits per byte
CUT_GOAL = 0.6  # of SFT's completions that do not comply


class Guard(NamedTuple):
    """A goal, or a cost that a gain in style must not have."""

    name: str
    held: bool
    text: str
    verdicts: tuple[str, str] = ("held", "failed")

    @property
    def verdict(self) -> str:
        """One word: whether it held."""
        return self.verdicts[0 if self.held else 1]

    @property
    def markdown(self) -> str:
        """A line of a list."""
        verdict = self.verdict if self.held else f"**{self.verdict}**"
        return f"- {self.name}: {verdict}, {self.text}"


def goals(metrics: Metrics) -> list[Guard]:
    """The goals of a run, as far as its evaluation measured them."""
    gain = metrics["gain"]
    above_zero = "points; the goal is an interval above zero"
    asked = (
        (
            "non-compliance cut",  # there is none where SFT left nothing
            CUT,
            gain.get(CUT.key, 0.0) >= CUT_GOAL,
            f"{show(CUT, gain.get(CUT.key))}%; the goal is at least "
            f"{100 * CUT_GOAL:.0f}%",
        ),
        (
            "gain at SFT's lengths",
            STANDARDISED,
            gain_sign(STANDARDISED, gain) > 0,
            f"{show_gain(STANDARDISED, gain)} {above_zero}",
        ),
        (
            "gain after the fixer",
            RESIDUAL,
            gain_sign(RESIDUAL, gain) > 0,
            f"{show_gain(RESIDUAL, gain)} {above_zero}",
        ),
        (
            "unseen linter (ruff)",
            RUFF,
            gain_sign(RUFF, gain) >= 0,
            f"{show_gain(RUFF, gain)} findings in 10 lines; the goal is that "
            "it is not clearly worse",
        ),
    )
    return [
        Guard(name, reached, text, ("reached", "missed"))
        for name, metric, reached, text in asked
        if metric.key in gain
    ]


def guards(metrics: Metrics) -> list[Guard]:
    """Whether PPO's gain cost parse rate, size or distance."""
    sft, ppo, gain = (metrics[key] for key in ("sft", "ppo", "gain"))

    def not_worse(name: str, key: str) -> Guard:
        metric = metric_of(key)
        return Guard(
            name,
            gain_sign(metric, gain) >= 0,
            f"{show(metric, sft[key])}% to {show(metric, ppo[key])}%, "
            f"{show_gain(metric, gain)} points; it must not be clearly worse",
        )

    checked = [
        not_worse("parse rate", "parse_rate"),
        not_worse("finished", "finished_rate"),
        not_worse("trivial bodies", "trivial_share"),
        _near("median length", "length_median", SIZE_LIMIT, sft, ppo),
        _near("statements", "statements", SIZE_LIMIT, sft, ppo),
        _near("distinct-3", "distinct_3", DIVERSITY_LIMIT, sft, ppo),
    ]
    if "kl" in ppo:  # there is none between two vocabularies
        limit = f"nats a response; the limit is {KL_LIMIT:g}"
        text = f"{show_gain(metric_of('kl'), gain)} {limit}"
        checked.append(Guard("KL to SFT", ppo["kl"] <= KL_LIMIT, text))
    checked.append(_forgotten(sft, ppo))
    for name, key in (  # as far as they were measured
        ("idle code", "idle_share"),
        ("arguments used", "used_arguments"),  # where a prompt has some
        ("names that resolve", "resolved_names"),  # not of literal prompts
        ("skill", "skill"),
    ):
        if key in gain:
            checked.append(not_worse(name, key))
    if why := metrics.get("skill", {}).get("why_not"):
        unknown = ("not measured", "not measured")
        checked.append(Guard("skill", True, str(why), unknown))
    return [
        *checked,
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
    # of a model whose every completion fails to parse, some are not measured
    before, after = sft.get(key, 0.0), ppo.get(key, 0.0)
    change = after / before - 1 if before else float(after != before)
    return Guard(
        name,
        abs(change) <= limit,
        f"{before:.3g} to {after:.3g}, {round(100 * change):+d}%; the limit "
        f"is {100 * limit:.0f}% either way",
    )
