"""The evaluation's metrics, from a table of judged completions.

One row of the table is one completion: `model, prompt_id, sample, prompt,
completion, finished, tokens, kl, outcome, parsed, score, codes,
fixed_outcome, fixed_codes, reformatted, statements, trivial, names, ruff (or
flake8)` (see generations.py and verdicts.py).  docs/metrics.md defines each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from stylerl.evaluation.measurement import standardised
from stylerl.evaluation.measurement.bootstrap import (
    DIGITS,
    ENDS,
    Interval,
    paired_intervals,
    percentiles,
    resampled_sums,
    simultaneous_intervals,
    spread,
)
from stylerl.judge.outcome import Outcome
from stylerl.lm.cut import whole_lines
from stylerl.reward import gaming

# Of what is judged, by its column: at SFT's lengths, and the share cut.
STANDARDISED = {
    "outcome": "standardised_compliance",
    "fixed_outcome": "standardised_residual",
}
CUT = {"outcome": "non_compliance_cut", "fixed_outcome": "residual_cut"}
RARE = 5  # prompts; a rule seen on fewer gets no interval


def compute_metrics(
    rows: pd.DataFrame,
    bits_per_byte: float | None = None,
    reference: pd.DataFrame | None = None,
) -> dict[str, float]:
    """Every metric of one model's completions.

    `bits_per_byte` of human code are measured on the model itself.  With
    `reference`, another model's completions, the compliance at that model's
    lengths on the same prompts is one of them.
    """
    means = _per_completion(rows).mean()
    values = {str(key): float(mean) for key, mean in means.items()}
    values["length_median"] = float(rows["tokens"].median())
    values["distinct_3"] = gaming.distinct_ngrams(_judged(rows))
    if bits_per_byte is not None:
        values["bits_per_byte"] = bits_per_byte
    if reference is not None:
        prompts = pd.Index(rows["prompt_id"].unique())
        for outcome, key in STANDARDISED.items():
            tally, target = (
                standardised.tally(table, prompts, outcome).sum(axis=0)
                for table in (rows, reference)
            )
            values[key] = float(standardised.standardise(tally, target))
    return {
        key: round(value, DIGITS)
        for key, value in values.items()
        if np.isfinite(value)
    }


def compute_gains(
    after: pd.DataFrame,
    before: pd.DataFrame,
    resamples: int,
    seed: int,
    reference: pd.DataFrame | None = None,
) -> dict[str, float]:
    """The gains of one model over another on the same prompts.

    For each mean the difference, and `KEY_low` and `KEY_high`:
    its paired bootstrap 95% interval by prompt.  So for STANDARDISED, at the
    lengths of `reference` (by default of `before`), and for CUT, the share of
    the violating completions that are gone, as written and as fixed.
    """
    later, earlier = _by_prompt(after), _by_prompt(before)
    result: dict[str, float] = {}
    for key in later.columns:
        # of a prompt where nothing parses, some have no say
        differences = (later[key] - earlier[key]).dropna().to_numpy()
        if len(differences):
            (interval,) = paired_intervals(
                differences[:, None], resamples, seed
            )
            result |= spread(key, interval)
    lengths = before if reference is None else reference
    tables = (after, before, lengths)
    for outcome in STANDARDISED:
        result |= _length_gains(tables, outcome, resamples, seed)
    return result


def _length_gains(
    tables: Sequence[pd.DataFrame], outcome: str, resamples: int, seed: int
) -> dict[str, float]:
    """STANDARDISED and CUT of an outcome, anew from each resample's counts.

    `tables` are of the model after, the one before, and the reference.
    """
    prompts = pd.Index(sorted(tables[0]["prompt_id"].unique()))
    tallies = np.stack(
        [standardised.tally(rows, prompts, outcome) for rows in tables],
        axis=1,
    )  # (P, 3, 2, S)
    drawn = resampled_sums(
        tallies.reshape(len(prompts), -1), resamples, seed
    ).reshape(resamples, *tallies.shape[1:])  # (B, 3, 2, S)
    gains, resampled = (
        _length_metrics(t, outcome) for t in (tallies.sum(axis=0), drawn)
    )
    result: dict[str, float] = {}
    for key, value in gains.items():
        if np.isfinite(value):
            # A resample in which nothing was there to cut has no say.
            bounds = percentiles(resampled[key][np.isfinite(resampled[key])])
            result |= spread(key, Interval(float(value), *bounds.tolist()))
    return result


def _length_metrics(tallies: Any, outcome: str) -> dict[str, Any]:
    """STANDARDISED and CUT of (..., 3, 2, S): after, before, reference."""
    after, before, reference = np.moveaxis(tallies, -3, 0)
    now, then = (standardised.plain(side) for side in (after, before))
    gain = standardised.standardise(after, reference)
    gain = gain - standardised.standardise(before, reference)
    cut = standardised.cut(now, then)
    return {STANDARDISED[outcome]: gain, CUT[outcome]: cut}


def compare_with_sft(
    rows: pd.DataFrame, sft: pd.DataFrame, resamples: int, seed: int
) -> dict[str, float]:
    """The gain of a baseline over SFT on the baseline's own prompts.

    `prompts`, their number, and with intervals `over_sft`, compliance, and
    `over_sft_standardised`, compliance at SFT's lengths.
    """
    gain = compute_gains(rows, sft, resamples, seed)
    numbers: dict[str, float] = {"prompts": rows["prompt_id"].nunique()}
    for end in ENDS:
        numbers |= {
            f"over_sft{end}": gain[f"compliance{end}"],
            f"over_sft_standardised{end}": gain[STANDARDISED["outcome"] + end],
        }
    return numbers


def tabulate_rules(
    table: pd.DataFrame, resamples: int, seed: int
) -> pd.DataFrame:
    """Violations per 100 completions, by rule and model.

    Columns: `rule, text`, one of base, sft and ppo each, `change` (PPO less
    SFT) and its `low` and `high`, which hold for all rules at once; NaN for
    rules seen on fewer than RARE prompts; and `sft_fixed` and `ppo_fixed`,
    what of theirs a fixer leaves.  The most frequent rule of SFT comes first.
    """
    models = ("base", "sft", "ppo")
    rows = table[table["model"].isin(models)]
    # (model, prompt) x rule: violations a completion
    counts, left = (
        _count_violations(rows, codes) for codes in ("codes", "fixed_codes")
    )
    means, fixed = (
        100 * table.groupby(level="model").mean().T for table in (counts, left)
    )
    rules = means.index.union(fixed.index)
    by_rule = means.reindex(rules, columns=models).fillna(0.0)
    fixed = fixed.reindex(rules, columns=models[1:]).fillna(0.0)
    by_rule["change"] = by_rule["ppo"] - by_rule["sft"]
    by_rule[["low", "high"]] = np.nan
    pair = counts.loc[counts.index.get_level_values("model") != "base"]
    prompts = (pair > 0).groupby(level="prompt_id").any().sum()
    common = prompts.index[prompts >= RARE]
    if len(common):
        differences: Any = counts.loc["ppo"] - counts.loc["sft"]
        intervals = simultaneous_intervals(
            100 * differences[common].to_numpy(), resamples, seed
        )
        by_rule.loc[common, ["low", "high"]] = [i[1:] for i in intervals]
    by_rule = by_rule.join(fixed.add_suffix("_fixed"))
    by_rule.insert(0, "text", _describe_rules(rows))
    by_rule = by_rule.rename_axis("rule").reset_index()
    by_rule = by_rule.sort_values(["sft", "rule"], ascending=[False, True])
    return by_rule.round(DIGITS).reset_index(drop=True)


def _per_completion(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a completion, one column for each metric that is a mean."""
    text = _judged(rows)
    pairs = [*zip(rows["prompt"], text, strict=True)]
    compliant = rows["outcome"] == Outcome.COMPLIANT
    return pd.DataFrame(
        {
            "compliance": compliant,
            "non_trivial_compliance": compliant
            & ~rows["trivial"].astype(bool),
            "score": rows["score"],
            "violations": rows["codes"].map(len),
            "residual_compliance": rows["fixed_outcome"] == Outcome.COMPLIANT,
            "residual_violations": rows["fixed_codes"].map(len),
            "parse_rate": rows["parsed"],
            "finished_rate": rows["finished"],
            "length": rows["tokens"],
            "long_share": rows["tokens"] > standardised.LONG,
            "statements": rows["statements"].where(
                rows["parsed"].astype(bool)
            ),
            "trivial_share": rows["trivial"],
            "idle_share": [gaming.has_idle_code(*pair) for pair in pairs],
            "used_arguments": [gaming.used_arguments(*pair) for pair in pairs],
            "repeated_lines": text.map(gaming.repeated_line_share),
            "comment_share": text.map(gaming.comment_line_share),
            "docstring_share": [gaming.has_docstring(*pair) for pair in pairs],
            "noqa_share": text.map(gaming.mentions_noqa),
            "copied_share": [gaming.copies_prompt(*pair) for pair in pairs],
            "kl": rows["kl"],
            **external_metrics(rows),
        }
    ).astype(float)


def external_metrics(rows: pd.DataFrame) -> dict[str, Any]:
    """Metrics of linters other than the judge; NaN for unparsable text."""
    unseen = "flake8" if "flake8" in rows else "ruff"
    readable = rows["parsed"].astype(bool) & rows[unseen].notna()
    lines = _judged(rows).map(gaming.content_lines).clip(lower=1)
    return {
        unseen: (10 * rows[unseen].str.len() / lines).where(readable),
        "reformatted": rows["reformatted"].where(readable),
        "resolved_names": rows["names"],
    }


def _judged(rows: pd.DataFrame) -> "pd.Series[str]":
    """The completions, without the line that was cut at the token limit."""
    text = rows["completion"]
    return text.where(rows["finished"].astype(bool), text.map(whole_lines))


def _by_prompt(rows: pd.DataFrame) -> pd.DataFrame:
    return _per_completion(rows).groupby(rows["prompt_id"]).mean().sort_index()


def _count_violations(rows: pd.DataFrame, codes: str) -> pd.DataFrame:
    """Mean violations a completion, (model, prompt_id) x rule."""
    keys = ["model", "prompt_id"]
    samples = rows.groupby(keys).size()
    charged = rows[[*keys, codes]].explode(codes).dropna()
    counts: Any = charged.groupby([*keys, codes]).size().unstack(codes)
    return counts.reindex(samples.index).fillna(0.0).div(samples, axis=0)


def _describe_rules(rows: pd.DataFrame) -> pd.Series:
    """The most frequent message of each rule, without measured values."""
    messages = rows[["codes", "texts"]].explode(["codes", "texts"]).dropna()
    plain = messages["texts"].str.replace(r" \(.*\)", "", regex=True)
    return plain.groupby(messages["codes"]).agg(
        lambda texts: texts.mode().iloc[0]
    )
