"""The before/after table in words, from metrics/evaluate.json."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stylerl.evaluation.display import (
    MODELS,
    Metric,
    Metrics,
    gain_sign,
    labels,
    measured,
    metric_of,
    rename,
    show,
    show_gain,
    show_models,
)
from stylerl.evaluation.guards import (
    CUT,
    RESIDUAL,
    STANDARDISED,
    goals,
    guards,
)

REPORT = Path("artifacts/report/report.html")
JOINT = metric_of("joint")
LINTER, OURS = "linter_best_of_{}", "ppo_linter_best_of_{}"
BEST_OF = {  # by the key, which ends with how many there are to choose from
    "linter_best_of_": "SFT, best of {} by the linter",
    "best_of_": "SFT, best of {} by the classifier",
}


FINDINGS = {
    "ruff": "ruff's findings in 10 lines",
    "flake8": "flake8's findings in 10 lines, of rules that ruff's lack",
    "reformatted": "the share of lines that the fixer changes",
}
OVER_SFT = [
    Metric("over_sft", "compliance over SFT, points", 100, 1, 1),
    Metric("over_sft_standardised", "at SFT's lengths, points", 100, 1, 1),
]
BASELINE_METRICS = [
    metric_of(key)
    for key in ("compliance", "residual_compliance", "parse_rate", "length",
                "long_share", "statements")
]  # fmt: skip


CONTEST = (
    "standardised_compliance", "compliance", "residual_compliance", "skill",
    "joint", "skill_greedy", "parse_rate", "length_median",
    "long_share", "statements", "distinct_3", "kl", "ruff", "flake8",
    "reformatted",
)  # fmt: skip


def headline(metrics: Metrics) -> str:
    """What PPO did to compliance, and at what cost, in plain words.

    First what it did to what the fixer leaves, then to compliance as
    written; each with the share of what did not comply that is gone, and at
    SFT's lengths.  Then whether the model still does its job, each rival that
    does as well, each goal that was missed and each guard that failed.
    """
    gain, words = metrics["gain"], "PPO"
    if RESIDUAL.key in gain:
        left = _change(metrics, RESIDUAL, metric_of("standardised_residual"),
                       metric_of("residual_cut"))  # fmt: skip
        words = f"After ruff's fixes and format, PPO {left} As written, it"
    as_written = _change(metrics, metric_of("compliance"), STANDARDISED, CUT)
    words = f"{words} {as_written}"
    if JOINT.key in gain:
        before, after = (
            show(JOINT, metrics[model][JOINT.key]) for model in ("sft", "ppo")
        )
        words += (
            f" On HumanEval {before}% and {after}% are right and compliant, "
            f"{show_gain(JOINT, gain)} points."
        )
    ours = ("compliance", STANDARDISED.key)
    ends = ("", " at SFT's lengths")
    for over, key, end in zip(OVER_SFT, ours, ends, strict=True):
        rivals = [
            f"{label} ({show_gain(over, metrics[name])} points over SFT on "
            f"{metrics[name]['prompts']} prompts)"
            for name, label in best_of(metrics)
            if metrics[name].get(over.key, -1) >= gain.get(key, math.inf)
        ]
        if rivals:
            words += (
                f" A rival does as well or better{end}: {'; '.join(rivals)}."
            )
    words += _best_of_both(metrics)
    for kind, checked in (
        ("Missed goals", goals(metrics)),
        ("Failed guards", guards(metrics)),
    ):
        if names := [guard.name for guard in checked if not guard.held]:
            words += f" {kind}: {', '.join(names)}."
    return words


def _change(
    metrics: Metrics, compliance: Metric, at_lengths: Metric, cut: Metric
) -> str:
    """What PPO did to a kind of compliance, as the rest of a sentence."""
    gain = metrics["gain"]
    before, after = (
        show(compliance, metrics[model][compliance.key])
        for model in ("sft", "ppo")
    )
    moved = show_gain(compliance, gain)
    change = f"from {before}% to {after}%, {moved} points"
    if at_lengths.key in gain:
        at = show(at_lengths, metrics["ppo"][at_lengths.key])
        moved = show_gain(at_lengths, gain)
        change += f"; at SFT's lengths to {at}%, {moved} points"
    sign = gain_sign(compliance, gain)
    if sign < 0:
        return f"lowered compliance {change}. It did harm."
    if sign == 0:
        return f"did not change compliance measurably: {change}."
    by = ""
    if cut.key in gain:
        by = f" by {show_gain(cut, gain).replace('+', '')}%"
    return f"cut non-compliance{by}: compliance rose {change}."


def _best_of_both(metrics: Metrics) -> str:
    """PPO's gain where the linter chooses the best sample of both models."""
    gain, samples = metrics.get("gain_best_of", {}), metrics["size"]["samples"]
    if RESIDUAL.key not in gain:
        return ""
    theirs, ours = (
        show(RESIDUAL, metrics[name.format(samples)][RESIDUAL.key])
        for name in (LINTER, OURS)
    )
    return (
        f" With the best of {samples} by the linter taken of both, {theirs}% "
        f"of SFT's and {ours}% of PPO's comply after the fixer, "
        f"{show_gain(RESIDUAL, gain)} points."
    )


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a headline, to be set large, and the rest."""
    first, stop, rest = text.partition(". ")
    return first + stop.strip(), rest


def bold_headline(metrics: Metrics) -> str:
    """The headline as Markdown, its first sentence bold."""
    first, rest = first_sentence(headline(metrics))
    return f"**{first}** {rest}".strip()


def basis(metrics: Metrics) -> str:
    """The prompts and completions behind the headline."""
    size = metrics["size"]
    literal = size.get("literal")
    kind = "literal prompt" if literal else "held-out prompt"
    words = (
        f"{_count(size['prompts'], kind)}, "
        f"{_count(size['samples'], 'completion')} each, the same prompts and "
        "seeds for every model; 95% intervals by paired bootstrap over "
        "prompts."
    )
    if not literal:
        words += " No stage trains on them; the base may have read them."
    asked = size.get("base_prompts", size["prompts"])
    if asked < size["prompts"]:
        words += f" The base completed the first {asked} of them."
    if size.get("validation") and not literal:
        words += (
            " The prompts are of the validation split, where settings are "
            "chosen: these numbers are no report."
        )
    return words


def external_linters(metrics: Metrics) -> str:
    """Whether linters that no reward has seen agree with the gain."""
    gain = metrics["gain"]
    linters = [key for key in FINDINGS if key in gain]
    if not linters:
        return "Other linters could read no prompt's completions of both."
    words = "; ".join(_said(key, metrics) for key in linters)
    agrees = any(gain_sign(metric_of(key), gain) > 0 for key in linters)
    if gain["compliance_low"] > 0 and not agrees:
        judge = "ruff" if "flake8" in linters else "flake8"
        return f"Only {judge} sees this gain: {words}."
    return f"Linters that no reward has seen: {words}."


def markdown(metrics: Metrics) -> str:
    """What `before_after` says, then baselines."""
    parts = [before_after(metrics)]
    if rows := baselines(metrics):
        parts.append(rename(markdown_table(rows), metrics))
    return "\n\n".join(parts) + "\n"


def before_after(metrics: Metrics) -> str:
    """Headline, table, goals and guards as Markdown."""
    models = [MODELS[role] for role in labels(metrics)]
    rows = [["metric", *models, "PPO - SFT [95%]"]]
    for metric in measured(metrics):
        values = show_models(metric, metrics)
        rows.append(
            [metric.label, *values, show_gain(metric, metrics["gain"])]
        )
    parts = [bold_headline(metrics), external_linters(metrics)]
    parts += [basis(metrics), markdown_table(rows)]
    checked = [*goals(metrics), *guards(metrics)]
    parts.append("\n".join(guard.markdown for guard in checked))
    return rename("\n\n".join(filter(None, parts)), metrics)


def contest(alone: Mapping[str, Metrics], compared: Mapping[str, Any]) -> str:
    """Several models as a Markdown table: a row each, the reference first.

    Args:
        alone: the metrics of each, by its name.
        compared: the evaluation of each but the reference.
    """
    known = {key for metrics in alone.values() for key in metrics}
    shown = [metric_of(key) for key in CONTEST if key in known]
    gains = [CUT, STANDARDISED, metric_of("compliance")]
    heads = [CUT.label, *(m.label for m in reversed(OVER_SFT))]
    heads += [*(metric.label for metric in shown), "guards that failed"]
    names = {"labels": {"sft": next(iter(alone))}}
    rows = [["model", *(rename(head, names) for head in heads)]]
    for name, metrics in alone.items():
        other = compared[name].metrics if name in compared else None
        gain = other["gain"] if other else {}
        failed = [g.name for g in guards(other) if not g.held] if other else []
        rows.append(
            [
                name,
                *(show_gain(metric, gain) for metric in gains),
                *(show(metric, metrics.get(metric.key)) for metric in shown),
                rename(", ".join(failed), names) or ("none" if other else "–"),
            ]
        )
    return markdown_table(rows) + "\n"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Header and rows as Markdown, numbers to the right."""
    head, *others = (f"| {' | '.join(cells)} |" for cells in rows)
    rule = "|---" + "|---:" * (len(rows[0]) - 1) + "|"
    return "\n".join([head, rule, *others])


def baselines(metrics: Metrics) -> list[list[str]]:
    """Heads, then a row a baseline; empty where none was measured."""
    named = {"human": "the human's own text"}
    named |= dict(best_of(metrics))
    samples = metrics["size"]["samples"]
    named[OURS.format(samples)] = f"PPO, best of {samples} by the linter"
    rows = [
        [
            label,
            f"{metrics[name]['prompts']:g}",
            *(show_gain(m, metrics[name]) for m in OVER_SFT),
            *(show(m, metrics[name].get(m.key)) for m in BASELINE_METRICS),
        ]
        for name, label in named.items()
        if name in metrics
    ]
    heads = [metric.label for metric in (*OVER_SFT, *BASELINE_METRICS)]
    return [["baseline", "prompts", *heads], *rows] if rows else []


def best_of(metrics: Metrics) -> list[tuple[str, str]]:
    """The key and the label of each best of n."""
    names = []
    for begin, label in BEST_OF.items():
        sizes = [
            int(name.removeprefix(begin))
            for name in metrics
            if name.startswith(begin)
        ]
        names += [(f"{begin}{n}", label.format(n)) for n in sorted(sizes)]
    return names


def _said(key: str, metrics: Metrics) -> str:
    """The findings of one other linter, before and after."""
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
