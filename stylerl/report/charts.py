"""The report's charts, each from a table of the evaluation or of training."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from stylerl.evaluation import display
from stylerl.report import plots, summary

SMOOTHING = 5  # updates in the running mean of PPO's path
ROLLOUTS = ("objective/kl", "judge/compliance")
MEASURED = ("validation/kl", "validation/compliance")  # where measured
CURVES = {
    "objective/score": "score of the reward",
    "objective/kl": "KL to SFT, nats a response",
    "objective/entropy": "entropy",
    "judge/compliance": "compliance of the rollouts",
    "judge/parse_rate": "parse rate of the rollouts",
    "judge/statements": "statements a rollout",
    "judge/gap": "weighted style reward less the linter's score",
    "judge/rank_correlation": "rank correlation of style part and linter",
    "response/length": "response length, tokens",
    "length/price": "price of length, in deviations of the score",
    "response/distinct_3": "distinct-3 of the rollouts",
    "response/eos_rate": "finished responses",
    "policy/clipfrac": "clip fraction",
    "value/explained_variance": "explained variance of the value",
    "grad_norm": "gradient norm",
}
OVERVIEW = {
    "as written": "compliance",
    "after the fixer": "residual_compliance",
    "right as well": "joint",
}


def draw_overview(metrics: Mapping[str, Any]) -> Markup:
    """What complies as written, what after the fixer, and what is right too.

    Of each model, and of the best of n that complies most, of those that
    chose on all prompts.
    """
    everyone = [
        (label, model, metrics[model])
        for model, label in display.labels(metrics).items()
    ]
    rivals = [
        (label, "human", metrics[name])
        for _, name, label in summary.best_of(metrics)
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
                [100 * own.get(key, math.nan) for key in shown.values()],
            )
            for label, style, own in everyone
        ],
    )


def draw_curves(
    updates: pd.DataFrame | None,
) -> list[Markup]:
    """One chart for each known column that the trainer wrote.

    Alarms are lines, each where it was first triggered, under its number in
    `find_alarms`.
    """
    if updates is None or updates.empty:
        return []
    steps = updates["update"].astype(float).tolist()
    first: dict[int, list[int]] = {}
    for number, at in enumerate(find_alarms(updates).values(), 1):
        first.setdefault(at[0], []).append(number)
    marks = [
        plots.Mark(step, ", ".join(map(str, numbers)))
        for step, numbers in first.items()
    ]
    return [
        plots.lines(
            title,
            steps,
            [plots.Series(title, "ppo", updates[column].tolist())],
            marks=marks,
        )
        for column, title in CURVES.items()
        if column in updates and updates[column].notna().any()
    ]


def find_alarms(updates: pd.DataFrame | None) -> dict[str, list[int]]:
    """The updates at which each alarm was triggered, by its name."""
    if updates is None or "alarms" not in updates:
        return {}
    found: dict[str, list[int]] = {}
    for step, names in zip(updates["update"], updates["alarms"], strict=True):
        if isinstance(names, str):
            for name in filter(None, names.split("; ")):
                found.setdefault(name, []).append(int(step))
    return found


def draw_frontier(
    metrics: Mapping[str, Any], updates: pd.DataFrame | None
) -> Markup:
    """KL against compliance: PPO's path, and the models compared.

    Empty where the evaluation has no KL.
    """
    if "kl" not in metrics["ppo"]:
        return Markup()
    rollouts, measured = path_of(updates, ROLLOUTS), path_of(updates, MEASURED)
    smooth = rollouts.rolling(SMOOTHING, min_periods=1).mean()
    paths = []
    if len(rollouts):
        name = "PPO's rollouts on the prompts it learns from"
        paths.append((name, "human", smooth))
    if len(measured):
        paths.append(("the policy on validation prompts", "ppo", measured))
    points = [
        (label, model, metrics[model]["kl"], metrics[model])
        for model, label in display.labels(metrics).items()
        if model != "base"
    ] + [
        (label, "base", summary.kl_bound(n), metrics[name])
        for n, name, label in summary.best_of(metrics)
    ]
    return plots.lines(
        display.rename(
            "Compliance, %, by KL to SFT, nats a response", metrics
        ),
        [],
        [
            plots.Series(name, style, path["y"].tolist(), path["kl"].tolist())
            for name, style, path in paths
        ],
        dots=[
            plots.Dot(kl, 100 * own["compliance"], label, style)
            for label, style, kl, own in points
        ]
        + [
            plots.Dot(kl, y, str(update), "ppo", above=True)
            for update, kl, y in measured.itertuples()
        ],
    )


def path_of(
    updates: pd.DataFrame | None, columns: tuple[str, str]
) -> pd.DataFrame:
    """KL and compliance in % (`kl`, `y`) by update, where both are known."""
    if updates is None or not {*columns} <= set(updates):
        return pd.DataFrame({"kl": [], "y": []})
    kl, compliance = columns
    known = updates.set_index("update")[[*columns]].dropna()
    return pd.DataFrame({"kl": known[kl], "y": 100 * known[compliance]})


def draw_calibration(table: pd.DataFrame | None) -> list[Markup]:
    """Predicted against observed compliance of the classifier."""
    if table is None or table.empty:
        return []
    chart = plots.lines(
        "On held-out labels: predicted P(compliant), the judge's share",
        table["predicted"].tolist(),
        [plots.Series("observed", "ppo", table["observed"].tolist())],
        diagonal=True,
    )
    return [chart]
