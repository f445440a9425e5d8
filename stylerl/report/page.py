"""The report: one self-contained HTML page from an evaluation's tables.

Only its last section, on where the metrics come from, depends on the clock
and the machine.  Completions are untrusted text and are escaped by the
template engine; the page loads nothing and runs no script.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stylerl import storage
from stylerl.evaluation import display, guards
from stylerl.judge.outcome import Outcome
from stylerl.report import charts, markup, samples, summary, templates

TEMPLATE = Path(__file__).with_name("report.html.j2")
CHANGE = display.Metric("change", "PPO - SFT", 1, 1, -1)
ENDS = {"": "change", "_low": "low", "_high": "high"}


class Evidence(NamedTuple):
    """Everything the page shows; the tables are those of the evaluation."""

    metrics: Mapping[str, Any]
    rules: pd.DataFrame
    completions: pd.DataFrame
    updates: pd.DataFrame  # metrics/ppo.csv, one row an update
    provenance: Mapping[str, str]
    seconds: Mapping[str, float]  # by stage
    params: str
    seed: int  # of the samples shown


def render(evidence: Evidence) -> str:
    """The page as text."""
    # The arguments are in the order of the page.
    metrics, completions = evidence.metrics, evidence.completions
    alarms = charts.find_alarms(evidence.updates)
    headline = summary.headline(metrics)
    if alarms:
        headline += f" Alarms: {', '.join(alarms)}."
    page = templates.load(TEMPLATE).render(
        headline=summary.first_sentence(headline),
        overview=charts.draw_overview(metrics),
        external_linters=summary.external_linters(metrics),
        basis=summary.basis(metrics),
        guards=[*guards.goals(metrics), *guards.guards(metrics)],
        models=display.MODELS,
        table=_table(metrics),
        baselines=summary.baselines(metrics),
        outcomes=_outcomes(completions),
        outcome_names=[str(outcome) for outcome in Outcome],
        rules=_rules(evidence.rules),
        curves=charts.draw_curves(evidence.updates),
        alarms=alarms,
        gallery=samples.choose(completions, evidence.seed),
        provenance=evidence.provenance,
        seconds=evidence.seconds,
        params=evidence.params,
    )
    return markup.visible(page)


def identify(model: str) -> str:
    """The digests of a folder's weights, or the name on the hub."""
    weights = sorted(Path(model).glob("*.safetensors"))
    if weights:
        return f"{model}, SHA-256 {', '.join(map(storage.digest, weights))}"
    return model


def _table(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "label": metric.label,
            "values": display.show_models(metric, metrics),
            "gains": [
                _gain(metric, metrics, gain, before)
                for gain, before in (("gain", "sft"), ("gain_sft", "base"))
                if gain in metrics
            ],
        }
        for metric in display.measured(metrics)
    ]


def _gain(
    metric: display.Metric, metrics: Mapping[str, Any], name: str, before: str
) -> dict[str, Any]:
    """A difference, and its sign; none over a value that is not shown."""
    shown = display.show_own(metric, metrics[before]) != "–"
    gain = metrics[name] if shown else {}
    return {
        "text": display.show_gain(metric, gain),
        "sign": display.gain_sign(metric, gain),
    }


def _outcomes(completions: pd.DataFrame) -> list[dict[str, Any]]:
    """Share of each outcome by model, in per cent."""
    shares = pd.crosstab(
        completions["model"], completions["outcome"], normalize="index"
    ).reindex(columns=[str(outcome) for outcome in Outcome], fill_value=0)
    return [
        {"label": label, "percent": (100 * shares.loc[model]).to_dict()}
        for model, label in display.MODELS.items()
    ]


def _rules(rules: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of the rules table, with bar widths relative to the longest."""
    models = list(display.MODELS)
    most = max(float(rules[models].to_numpy().max(initial=0)), 1e-9)
    rows = []
    for row in rules.fillna({"text": ""}).to_dict("records"):
        gain = {f"change{end}": row[key] for end, key in ENDS.items()}
        words = display.show(CHANGE, row["change"], signed=True)
        if np.isfinite(row["low"]):
            words = display.show_gain(CHANGE, gain)
        sign = display.gain_sign(CHANGE, gain)
        bars = [(name, row[name], 100 * row[name] / most) for name in models]
        rows.append(row | {"bars": bars, "difference": words, "sign": sign})
    return rows
