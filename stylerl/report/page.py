"""The report: one self-contained HTML page from an evaluation's tables.

Only its last section, on where the numbers come from, depends on the clock
and the machine.  Completions are untrusted text and are escaped by the
template engine; the page loads nothing and runs no script.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stylerl.judge.outcome import Outcome
from stylerl.judge.verdict import Violation
from stylerl.report import markup, plots, summary
from stylerl.results import display, guards

RANDOM_SAMPLES = 10
WORST_SAMPLES = 5
LENGTH_BINS = 16
BINS = 5  # equal bins of P(compliant)
FEW = 10  # completions; a smaller bin shows nothing
SMOOTHING = 5  # updates in the running mean of PPO's way
WAY = ("objective/kl", "judge/compliance")
STOPS = ("validation/kl", "validation/compliance")  # where measured
DRIFT = {
    "judge/predicted_compliance": ("predicted by the reward model", "sft"),
    "judge/compliance": ("compliant", "ppo"),
}
CHANGE = display.Metric("change", "PPO - SFT", 1, 1, -1)
ENDS = {"": "change", "_low": "low", "_high": "high"}
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
    "response/distinct_3": "distinct-3 of the rollouts",
    "response/eos_rate": "finished responses",
    "policy/clipfrac": "clip fraction",
    "value/explained_variance": "explained variance of the value",
    "grad_norm": "gradient norm",
}

REWARD_MODELS = ("classifier", "pairwise")
REWARD_NUMBERS = {
    "AUROC": ["auroc"],
    "accuracy": ["accuracy"],
    "calibration error": ["calibration_error"],
    "correlation with the style score": ["score_correlation"],
    "minimal pairs right": ["pairs_right"],
    "of them, of equal length": ["pairs_right_matched"],
    "AUROC against what does not parse": ["broken_auroc"],
    "length bias, compliant": ["length_bias", "compliant"],
    "length bias, violating": ["length_bias", "violating"],
    "AUROC on rollouts": ["rollouts", "auroc"],
}


class Evidence(NamedTuple):
    """Everything the page shows; the tables are those of the evaluation."""

    metrics: Mapping[str, Any]
    rules: pd.DataFrame
    completions: pd.DataFrame
    updates: pd.DataFrame | None  # metrics/ppo.csv, one row an update
    calibration: pd.DataFrame | None  # metrics/reward_calibration.csv
    reward: Mapping[str, Any] | None  # metrics/reward.json
    provenance: Mapping[str, str]
    seconds: Mapping[str, float]  # by stage
    params: str
    seed: int  # of the samples shown


class Side(NamedTuple):
    """One model's completion of a prompt, ready to show."""

    label: str
    style: str
    outcome: str
    score: float
    pieces: Sequence[tuple[str, str | None]]  # text, message when underlined
    messages: Sequence[str]


class Sample(NamedTuple):
    """One prompt and what each model made of it."""

    prompt: str
    sides: Sequence[Side]


def render(evidence: Evidence) -> str:
    """The page as text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    metrics, completions = evidence.metrics, evidence.completions
    page = environment.get_template("report.html.j2").render(
        headline=summary.headline(metrics),
        external_linters=summary.external_linters(metrics),
        basis=summary.basis(metrics),
        guards=guards.guards(metrics),
        models=display.MODELS,
        table=_table(metrics),
        baseline_heads=[
            metric.label
            for metric in display.TABLE
            if metric.key in summary.BASELINE_KEYS
        ],
        baselines=summary.baselines(metrics),
        frontier=_frontier(metrics, evidence.updates),
        measured=len(_way(evidence.updates, STOPS)),
        outcomes=_outcomes(completions),
        outcome_names=[str(outcome) for outcome in Outcome],
        rules=_rules(evidence.rules),
        rule_changes=summary.rule_changes(evidence.rules),
        distributions=_distributions(completions),
        curves=_curves(evidence.updates),
        alarms=_alarms(evidence.updates),
        calibration=[
            *_calibration(evidence.calibration),
            *_predictions(completions),
            *_drift(evidence.updates),
        ],
        reward_numbers=_reward_numbers(evidence.reward),
        reward_rules=_reward_rules(evidence.reward),
        random_samples=_random_samples(completions, evidence.seed),
        worst_samples=_worst_samples(completions),
        provenance=evidence.provenance,
        seconds=evidence.seconds,
        params=evidence.params,
    )
    return markup.visible(page)


def _table(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "label": metric.label,
            "values": [
                display.show(metric, metrics[model].get(metric.key))
                for model in display.MODELS
            ],
            "gains": [
                {
                    "text": display.show_gain(metric, metrics[gain]),
                    "sign": display.gain_sign(metric, metrics[gain]),
                }
                for gain in ("gain", "gain_sft")
            ],
        }
        for metric in display.TABLE
    ]


def _outcomes(completions: pd.DataFrame) -> list[dict[str, Any]]:
    """Share of each outcome by model, in per cent."""
    shares = []
    for model, label in display.MODELS.items():
        own = completions.loc[completions["model"] == model, "outcome"]
        percent = {
            str(outcome): 100 * float((own == outcome).mean())
            for outcome in Outcome
        }
        shares.append({"label": label, "percent": percent})
    return shares


def _rules(rules: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of the rules table, with bar widths relative to the longest."""
    models = list(display.MODELS)
    most = max(float(rules[models].to_numpy().max(initial=0)), 1e-9)
    rows = []
    for row in rules.to_dict("records"):
        sign = int(row["high"] < 0) - int(row["low"] > 0)
        words = display.show(CHANGE, row["change"], signed=True)
        if np.isfinite(row["low"]):
            words = display.show_gain(
                CHANGE,
                {f"change{end}": row[key] for end, key in ENDS.items()},
            )
        bars = [
            (model, row[model], 100 * row[model] / most) for model in models
        ]
        rows.append(row | {"bars": bars, "difference": words, "sign": sign})
    return rows


def _distributions(completions: pd.DataFrame) -> list[Markup]:
    """Histograms of score and length, one colour a model."""
    grid = [round(0.1 * tenth, 1) for tenth in range(11)]
    longest = max(int(completions["tokens"].max()), 1)
    edges = np.linspace(0, longest, LENGTH_BINS + 1)
    scores, lengths = [], []
    for model, label in display.MODELS.items():
        own = completions[completions["model"] == model]
        nearest = (own["score"] * 10).round().astype(int)
        share = [100 * float((nearest == tenth).mean()) for tenth in range(11)]
        scores.append(plots.Series(label, model, share))
        counts, _ = np.histogram(own["tokens"], edges)
        percent = 100 * counts / max(len(own), 1)
        lengths.append(plots.Series(label, model, percent.tolist()))
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    return [
        plots.bars(
            "Style score, % of completions",
            [f"{tick:g}" for tick in grid],
            scores,
        ),
        plots.lines("Length in tokens, % of completions", middles, lengths),
    ]


def _curves(updates: pd.DataFrame | None) -> list[Markup]:
    """One chart for each known column that the trainer wrote."""
    if updates is None or updates.empty:
        return []
    numbers = updates["update"].astype(float).tolist()
    marks = [
        plots.Mark(steps[0], name) for name, steps in _alarms(updates).items()
    ]
    return [
        plots.lines(
            title,
            numbers,
            [plots.Series(title, "ppo", updates[column].tolist())],
            marks=marks,
        )
        for column, title in CURVES.items()
        if column in updates and updates[column].notna().any()
    ]


def _alarms(updates: pd.DataFrame | None) -> dict[str, list[int]]:
    """The updates at which each alarm rang, by its name."""
    if updates is None or "alarms" not in updates:
        return {}
    rang: dict[str, list[int]] = {}
    for step, names in zip(updates["update"], updates["alarms"], strict=True):
        if isinstance(names, str):
            for name in filter(None, names.split("; ")):
                rang.setdefault(name, []).append(int(step))
    return rang


def _frontier(
    metrics: Mapping[str, Any], updates: pd.DataFrame | None
) -> Markup:
    """KL against compliance: PPO's way, and the models that were compared."""
    rollouts, measured = _way(updates, WAY), _way(updates, STOPS)
    smooth = rollouts.rolling(SMOOTHING, min_periods=1).mean()
    ways = [("PPO's rollouts on the prompts it learns from", "base", smooth)]
    if len(measured):
        ways.append(("the policy on validation prompts", "ppo", measured))
    points = [
        ("SFT", "sft", 0.0, metrics["sft"]),
        ("PPO", "ppo", metrics["ppo"]["kl"], metrics["ppo"]),
    ] + [
        (f"best of {n}", "base", summary.kl_bound(n), metrics[name])
        for n, name in summary.best_of(metrics)
    ]
    return plots.lines(
        "Compliance, %, by KL to SFT, nats a response",
        [],
        [
            plots.Series(name, style, way["y"].tolist(), way["kl"].tolist())
            for name, style, way in ways
        ],
        dots=[
            plots.Dot(kl, 100 * numbers["compliance"], words, style)
            for words, style, kl, numbers in points
        ]
        + [
            plots.Dot(kl, y, str(update), "ppo", above=True)
            for update, kl, y in measured.itertuples()
        ],
    )


def _way(
    updates: pd.DataFrame | None, columns: tuple[str, str]
) -> pd.DataFrame:
    """KL and compliance in % (`kl`, `y`) by update, where both are known."""
    if updates is None or not {*columns} <= set(updates):
        return pd.DataFrame({"kl": [], "y": []})
    kl, compliance = columns
    known = updates.set_index("update")[[*columns]].dropna()
    return pd.DataFrame({"kl": known[kl], "y": 100 * known[compliance]})


def _calibration(table: pd.DataFrame | None) -> list[Markup]:
    """Predicted against observed compliance of the classifier."""
    if table is None or table.empty:
        return []
    chart = plots.lines(
        "On held-out labels: predicted P(compliant), the judge's share",
        table["predicted"].tolist(),
        [plots.Series("observed", "ppo", table["observed"].tolist())],
        bounds=(0.0, 1.0),
        diagonal=True,
    )
    return [chart]


def _reward_numbers(
    reward: Mapping[str, Any] | None,
) -> list[tuple[str, list[str]]]:
    """Each number of the reward models: label, classifier, pairwise."""
    if reward is None:
        return []
    return [
        (words, [_share(reward[model], keys) for model in REWARD_MODELS])
        for words, keys in REWARD_NUMBERS.items()
    ]


def _reward_rules(
    reward: Mapping[str, Any] | None,
) -> list[tuple[str, list[str]]]:
    """By rule: minimal pairs, shares right, then those of equal length."""
    if reward is None:
        return []
    keys = [[name] for name in ("pairs", *REWARD_MODELS)]
    keys += [["matched", *each] for each in keys]
    return [
        (rule, [_share(row, each) for each in keys])
        for rule, row in reward["rules"].items()
    ]


def _share(tree: Any, keys: Sequence[str]) -> str:
    """A number down a tree: counts as they are, others to three digits."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    if tree is None:
        return "–"
    return str(tree) if isinstance(tree, int) else f"{tree:.3f}"


def _predictions(completions: pd.DataFrame) -> list[Markup]:
    """The same on what each model wrote: whom does the reward flatter?"""
    if "reward" not in completions:
        return []
    middles = [(place + 0.5) / BINS for place in range(BINS)]
    series = []
    for model, label in display.MODELS.items():
        own = completions[completions["model"] == model]
        place = (own["reward"] * BINS).clip(0, BINS - 1).astype(int)
        kept = (own["outcome"] == Outcome.COMPLIANT).groupby(place)
        share = kept.mean().where(kept.size() >= FEW).reindex(range(BINS))
        series.append(plots.Series(label, model, share.tolist()))
    chart = plots.lines(
        "On the models' completions: predicted, the judge's share",
        middles,
        series,
        bounds=(0.0, 1.0),
        diagonal=True,
    )
    return [chart]


def _drift(updates: pd.DataFrame | None) -> list[Markup]:
    """Over the run: compliance as predicted, and as judged."""
    if updates is None or not {*DRIFT} <= set(updates):
        return []
    smooth = updates[[*DRIFT]].rolling(SMOOTHING, min_periods=1).mean()
    chart = plots.lines(
        "PPO's rollouts by update: predicted, and what the judge found",
        updates["update"].astype(float).tolist(),
        [
            plots.Series(label, style, smooth[column].tolist())
            for column, (label, style) in DRIFT.items()
        ],
    )
    return [chart]


def _random_samples(completions: pd.DataFrame, seed: int) -> list[Sample]:
    """Prompts drawn at random, the first completion of each model."""
    prompts = completions["prompt_id"].drop_duplicates().sort_values()
    drawn = prompts.sample(
        min(RANDOM_SAMPLES, len(prompts)), random_state=seed
    )
    return [_sample(completions, prompt, 0) for prompt in drawn]


def _worst_samples(completions: pd.DataFrame) -> list[Sample]:
    """The completions where PPO lost most of the style score to SFT."""
    keys = ["prompt_id", "sample"]
    scores = completions.pivot_table(
        index=keys, columns="model", values="score"
    )
    change = (scores["ppo"] - scores["sft"]).rename("change").reset_index()
    worst = change.sort_values(["change", *keys]).head(WORST_SAMPLES)
    return [
        _sample(completions, row["prompt_id"], row["sample"])
        for row in worst[worst["change"] < 0].to_dict("records")
    ]


def _sample(completions: pd.DataFrame, prompt_id: str, number: int) -> Sample:
    chosen = completions[
        (completions["prompt_id"] == prompt_id)
        & (completions["sample"] == number)
    ].set_index("model")
    sides = [
        _side(label, model, chosen.loc[model])
        for model, label in display.MODELS.items()
    ]
    return Sample(chosen.iloc[0]["prompt"], sides)


def _side(label: str, style: str, row: Any) -> Side:
    violations = [
        Violation(int(r), int(c), code, text)
        for r, c, code, text in zip(
            row["rows"], row["cols"], row["codes"], row["texts"], strict=True
        )
    ]
    whole = row["prompt"] + row["completion"]
    return Side(
        label,
        style,
        row["outcome"],
        float(row["score"]),
        pieces(whole, len(row["prompt"]), violations),
        [f"{v.row}:{v.col} {v.code} {v.text}" for v in violations],
    )


def pieces(
    text: str, start: int, violations: Sequence[Violation]
) -> list[tuple[str, str | None]]:
    """`text[start:]` cut into stretches, each with its message or None."""
    cut: list[tuple[str, str | None]] = []
    place = start
    for span in markup.spans(text, violations):
        first, last = max(span.start, place), max(span.end, place)
        cut.append((text[place:first], None))
        cut.append((text[first:last], "; ".join(span.messages)))
        place = last
    cut.append((text[place:], None))
    return [(words, note) for words, note in cut if words or note]
