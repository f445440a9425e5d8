"""The before/after table in words, from metrics/evaluate.json."""

import math
from collections.abc import Sequence

import pandas as pd
from rich.table import Table
from rich.text import Text

from stylerl.evaluation.display import (
    MODELS,
    TABLE,
    Metric,
    Metrics,
    gain_sign,
    metric_of,
    show,
    show_gain,
    show_models,
)
from stylerl.evaluation.guards import guards

BASELINES = {
    "autopep8": "autopep8 on the base's text",
    "human": "the human's own text",
}
BEST_OF = "best_of_"  # and how many it chooses from


FINDINGS = {
    "ruff": "ruff's findings in 10 lines",
    "black": "the share of lines that black would change",
}
OVER_SFT = Metric("over_sft", "compliance over SFT, points", 100, 1, 1)
BASELINE_METRICS = [
    metric_of(key)
    for key in ("compliance", "score", "parse_rate", "length", "statements")
]


def headline(metrics: Metrics) -> str:
    """What PPO did to compliance, and what a gain cost, in plain words."""
    gain = metrics["gain"]
    before, after = (100 * metrics[m]["compliance"] for m in ("sft", "ppo"))
    centre, low, high = (
        100 * gain[f"compliance{end}"] for end in ("", "_low", "_high")
    )
    span = f"95% interval {low:+.1f} to {high:+.1f}"
    change = f"from {before:.1f}% to {after:.1f}%"
    if low > 0:
        failed = [guard.name for guard in guards(metrics) if not guard.held]
        but = f" But it cost: {', '.join(failed)}." if failed else ""
        return (
            f"PPO raised compliance {change}: {centre:+.1f} points "
            f"({span}).{but}"
        )
    if high < 0:
        return (
            f"PPO lowered compliance {change}: {centre:+.1f} points ({span}). "
            "It did harm."
        )
    return (
        f"PPO did not change compliance measurably: {change}, "
        f"{centre:+.1f} points, and the {span} holds zero."
    )


def basis(metrics: Metrics) -> str:
    """What the headline rests on."""
    size = metrics["size"]
    literal = size.get("literal")
    kind = "literal prompt" if literal else "held-out prompt"
    words = (
        f"{_count(size['prompts'], kind)}, "
        f"{_count(size['samples'], 'completion')} each, the same prompts and "
        "seeds for every model; intervals by paired bootstrap over prompts."
    )
    if size.get("validation") and not literal:
        words += (
            " The prompts are of the validation split, where settings are "
            "chosen: these numbers are no report."
        )
    return words


def external_linters(metrics: Metrics) -> str:
    """Whether linters that no reward has seen agree with the gain."""
    gain = metrics["gain"]
    found = {key: _said(key, metrics) for key in FINDINGS if key in gain}
    if not found:
        return "ruff and black could read no prompt's completions of both."
    signs = {key: gain_sign(metric_of(key), gain) for key in found}
    words = "; ".join(found.values())
    if gain["compliance_low"] <= 0:
        return f"Linters that no reward has seen: {words}."
    agreeing = [key for key in found if signs[key] > 0]
    if not agreeing:
        return f"Only flake8 sees this gain: {words}."
    if len(agreeing) == len(found):
        return f"Linters that no reward has seen agree: {words}."
    return (
        f"Of the linters that no reward has seen, {' and '.join(agreeing)} "
        f"agrees: {words}."
    )


def rule_changes(rules: pd.DataFrame) -> dict[str, list[str]]:
    """The rules whose violations fell, rose, vanished or appeared.

    Fell and rose by intervals that hold for all rules at once; vanished and
    appeared by the counts alone, of the other rules.
    """
    proven = (rules["low"] > 0) | (rules["high"] < 0)
    cases = {
        "fell": rules["high"] < 0,
        "rose": rules["low"] > 0,
        "vanished": ~proven & (rules["ppo"] == 0) & (rules["sft"] > 0),
        "appeared": ~proven & (rules["sft"] == 0) & (rules["ppo"] > 0),
    }
    return {name: rules.loc[c, "rule"].tolist() for name, c in cases.items()}


def rich_table(metrics: Metrics) -> Table:
    """The before/after table for the terminal."""
    columns = [(label, metrics[model]) for model, label in MODELS.items()]
    gain = metrics["gain"]
    return gain_table("Before and after", columns, "PPO - SFT [95%]", gain)


def gain_table(
    title: str,
    columns: Sequence[tuple[str, Metrics]],
    heading: str,
    gain: Metrics,
) -> Table:
    """Metrics side by side, then a gain: clear ones green, losses red.

    A metric that no column holds is left out.
    """
    table = Table(title=title, title_justify="left")
    table.add_column("metric", no_wrap=True)
    for label, _ in columns:
        table.add_column(label, justify="right", overflow="fold")
    table.add_column(heading, justify="right", no_wrap=True)
    colours = {1: "green", -1: "red", 0: ""}
    for metric in TABLE:
        if any(metric.key in own for _, own in columns):
            values = [show(metric, own.get(metric.key)) for _, own in columns]
            style = colours[gain_sign(metric, gain)]
            change = Text(show_gain(metric, gain), style)
            table.add_row(metric.label, *values, change)
    return table


def markdown(metrics: Metrics) -> str:
    """Headline, guards and table as Markdown."""
    gain = metrics["gain"]
    table = [["metric", *MODELS.values(), "PPO - SFT (95% interval)"]]
    for metric in TABLE:
        cells = [metric.label, *show_models(metric, metrics)]
        table.append([*cells, show_gain(metric, gain)])
    parts = [f"**{headline(metrics)}**", external_linters(metrics)]
    parts += [basis(metrics), _markdown_table(table)]
    parts.append("\n".join(guard.markdown for guard in guards(metrics)))
    if found := baselines(metrics):
        rows = [[label, *cells] for label, cells in found]
        heads = ["baseline", "prompts", OVER_SFT.label]
        heads += [metric.label for metric in BASELINE_METRICS]
        parts.append(_markdown_table([heads, *rows]))
    return "\n\n".join(parts) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Header and rows as Markdown, numbers to the right."""
    head, *others = (f"| {' | '.join(cells)} |" for cells in rows)
    rule = "|---" + "|---:" * (len(rows[0]) - 1) + "|"
    return "\n".join([head, rule, *others])


def baselines(metrics: Metrics) -> list[tuple[str, list[str]]]:
    """Label, and prompts, gain and BASELINE_METRICS, of each baseline."""
    chosen = {
        name: f"SFT, best of {n} by the classifier"
        for n, name in best_of(metrics)
    }
    return [
        (
            label,
            [
                f"{metrics[name]['prompts']:g}",
                show_gain(OVER_SFT, metrics[name]),
                *(show(m, metrics[name].get(m.key)) for m in BASELINE_METRICS),
            ],
        )
        for name, label in {**BASELINES, **chosen}.items()
        if name in metrics
    ]


def best_of(metrics: Metrics) -> list[tuple[int, str]]:
    """How many each best of n chooses from, and its key, in order."""
    names = [name for name in metrics if name.startswith(BEST_OF)]
    return sorted((int(name.removeprefix(BEST_OF)), name) for name in names)


def kl_bound(n: int) -> float:
    """The most that the best of n can move from its model, nats a response.

    log n - (n - 1) / n, which Beirami et al. (arXiv 2401.01879, theorem 1)
    show to be an upper bound of the KL divergence, not its value.
    """
    return math.log(n) - (n - 1) / n


def _said(key: str, metrics: Metrics) -> str:
    """What one judge found before and after."""
    metric, gain = metric_of(key), metrics["gain"]
    before, after = (show(metric, metrics[m][key]) for m in ("sft", "ppo"))
    unit = " points" if metric.scale == 100 else ""
    verb = {1: "fell", -1: "rose", 0: "did not clearly change"}
    return (
        f"{FINDINGS[key]} {verb[gain_sign(metric, gain)]}, {before} to "
        f"{after}, {show_gain(metric, gain)}{unit}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
