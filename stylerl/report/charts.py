"""The report's charts, each from a table of the evaluation or of training."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from stylerl.evaluation import display
from stylerl.report import plots, summary

CURVES = {
    "objective/score": "score of the reward",
    "objective/kl": "KL to SFT, nats a response",
    "objective/entropy": "entropy",
    "judge/compliance": "compliance of the rollouts",
    "judge/gap": "weighted style reward less the linter's score",
    "response/length": "response length, tokens",
    "response/distinct_3": "distinct-3 of the rollouts",
}
OVERVIEW = {
    "as written": "compliance",
    "after the fixer": "residual_compliance",
    "right as well": "joint",
}


def draw_overview(metrics: Mapping[str, Any]) -> Markup:
    """Bars: compliant as written, after the fixer, and right as well.

    Of each model, and of the best of n that complies most, of those that
    chose on all prompts.
    """
    everyone = [
        (label, model, metrics[model])
        for model, label in display.MODELS.items()
    ]
    rivals = [
        (label, "human", metrics[name])
        for name, label in summary.best_of(metrics)
        if metrics[name]["prompts"] == metrics["size"]["prompts"]
    ]
    if rivals:
        best = max(rivals, key=lambda rival: rival[2]["compliance"])
        everyone.insert(-1, best)
    shown = {k: v for k, v in OVERVIEW.items() if v in metrics["ppo"]}
    title = "Compliant, % of completions: as written, after the fixer"
    if "joint" in shown.values():  # else the skill was not measured
        title += ", and of HumanEval's, right as well"
    return plots.bars(
        title,
        list(shown),
        [
            plots.Series(
                label,
                style,
                [100 * shares.get(key, math.nan) for key in shown.values()],
            )
            for label, style, shares in everyone
        ],
    )


def draw_curves(updates: pd.DataFrame) -> list[Markup]:
    """One chart for each known column that the trainer wrote.

    Alarms are lines, each where it was first triggered.
    """
    marks = sorted({steps[0] for steps in find_alarms(updates).values()})
    drawn = []
    for column, title in CURVES.items():
        known = updates.reindex(columns=["update", column]).dropna()
        steps, values = (known[name].tolist() for name in known)
        if values:
            drawn.append(plots.line(title, steps, values, marks))
    return drawn


def find_alarms(updates: pd.DataFrame) -> dict[str, list[int]]:
    """The updates at which each alarm was triggered, by its name."""
    by_name: dict[str, list[int]] = {}
    known = updates.dropna(subset="alarms")
    for step, names in zip(known["update"], known["alarms"], strict=True):
        for name in names.split("; "):
            by_name.setdefault(name, []).append(int(step))
    return by_name
