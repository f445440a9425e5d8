"""Before and after: base, SFT and PPO on prompts that no training saw.

    evaluate(sources, snippets, judge, config, seed)

samples the same prompts under the same seeds from every model, adds
baselines, judges all of it, and measures it.  docs/metrics.md defines each
metric.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import storage
from stylerl.config import EvaluateConfig, Params, to_dict
from stylerl.evaluation.measurement import (
    baselines,
    generations,
    heldout,
    verdicts,
)
from stylerl.evaluation.measurement.bootstrap import RESAMPLES
from stylerl.evaluation.measurement.generations import REFERENCE
from stylerl.evaluation.measurement.metrics import (
    compare_with_sft,
    compute_gains,
    compute_metrics,
    tabulate_rules,
)
from stylerl.judge import Judge
from stylerl.judge.place import Place
from stylerl.lm import sampling
from stylerl.lm.context import context_of

MODELS = ("base", "sft", "ppo")  # the column `model`, in this order
BASE_PROMPTS = 75  # it seldom stops by itself, which costs time, or complies


class Evaluation(NamedTuple):
    """What the stage writes: tables and the metrics computed from them."""

    completions: pd.DataFrame  # one row a model, prompt and sample
    metrics: dict[str, Any]  # metrics/evaluate.json
    rules: pd.DataFrame  # metrics/rules.csv


def evaluate(
    sources: Mapping[str, str],
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
    classifier: Path | None = None,
    places: Mapping[str, Place] | None = None,
) -> Evaluation:
    """Compare the models `base`, `sft` and `ppo` of `sources`.

    The base completes the first BASE_PROMPTS prompts alone.  With
    `classifier`, a reward model's folder, the best of n of SFT's by that
    model are baselines too.  With `places`, by the snippet's id, completions
    are judged in the files that their prompts were cut from.

    Raises:
        DataError: the split holds no prompt that is clean.
        ModelError: a model cannot be loaded, or a prompt is too long.
    """
    judged, bits = _judged(
        sources, snippets, judge, config, seed, places, aside="base"
    )
    predict = None
    if classifier is not None:
        predict = baselines.predict_compliance(classifier)
    completions = baselines.choose(judged, config, predict)
    return _measure(completions, bits, config, seed)


def evaluate_models(
    sources: Mapping[str, str],
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
    places: Mapping[str, Place] | None = None,
) -> tuple[dict[str, dict[str, float]], dict[str, Evaluation]]:
    """Measure any models, and compare each with the first.

    Returns:
        The metrics of each, and of the authors as `human`; and an evaluation
        of each but the first.  In that one the first is called `sft`, and
        the other `ppo`; the metrics have their names as `labels`.  The
        best of n by the linter, of each of the two, are baselines there.

    Raises:
        DataError: the split holds no prompt that is clean.
        ModelError: a model cannot be loaded, or a prompt is too long.
    """
    first, *others = sources
    table, bits = _judged(
        sources, snippets, judge, config, seed, places, first
    )
    reference = table[table["model"] == first]
    alone = {
        str(name): compute_metrics(rows, bits.get(str(name)), reference)
        for name, rows in table.groupby("model", sort=False)
    }
    compared = {}
    for name in others:
        roles = {first: "sft", name: "ppo", "human": "human"}
        rows = table[table["model"].isin(roles)]
        rows = rows.assign(model=rows["model"].map(roles))
        rows = baselines.choose(rows, config)
        of_both = {roles[model]: bits[model] for model in (first, name)}
        compared[name] = _measure(rows, of_both, config, seed)
        compared[name].metrics["labels"] = {"sft": first, "ppo": name}
    return alone, compared


def add_skill(metrics: dict[str, Any], skill: Mapping[str, Any]) -> None:
    """Add the metrics of stylerl/skill/measure.py to the others."""
    for key, values in skill.items():
        if key in metrics:  # a model, or a pair
            metrics[key] |= values
        else:
            metrics.setdefault("skill", {})[key] = values


def basis(judge: Judge, snippets: Path, params: Params) -> dict[Any, Any]:
    """The facts that must agree before two evaluations are compared."""
    return {
        "judge": judge.identity,
        "snippets": storage.digest(snippets),
        "seed": params.seed,
        **to_dict(params.evaluate),
    }


def _judged(
    sources: Mapping[str, str],
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
    places: Mapping[str, Place] | None,
    reference: str = REFERENCE,
    aside: str | None = None,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """What models and authors write, judged, and models' bits per byte.

    KL is measured from `reference`.  The model `aside` completes the first
    BASE_PROMPTS prompts, without a KL, since nothing reads it.
    """
    # 1. Sample: every model completes the same prompts from the same seeds.
    known = generations.load_model(sources[reference])
    room = config.max_new_tokens + context_of(known.model)
    prompts = heldout.draw_prompts(
        snippets, judge, config, seed, places,
        sampling.fits_all(sources.values(), room),
    )  # fmt: skip
    texts = heldout.draw_human_texts(snippets, config, seed)
    tables, bits = [], {}
    for name, source in sources.items():
        loaded = known
        if name != reference:
            loaded = generations.load_model(source)
        tables.append(
            generations.complete_prompts(
                name, loaded,
                prompts[:BASE_PROMPTS] if name == aside else prompts,
                reference=known, config=config, seed=seed, kl=name != aside,
            )
        )  # fmt: skip
        bits[name] = generations.bits_per_byte(
            loaded, texts, f"evaluate: human code, {name}"
        )
    # 2. What the authors wrote there.
    tables.append(baselines.written_by_humans(prompts, known.tokenizer))
    # 3. Judge: the judge, and linters that no reward has seen.
    table = pd.concat(tables, ignore_index=True)
    return verdicts.judge_completions(table, judge, places), bits


def _measure(
    completions: pd.DataFrame,
    bits_per_byte: Mapping[str, float],
    config: EvaluateConfig,
    seed: int,
) -> Evaluation:
    """Every metric of every model, and the gains between them."""
    rows = {
        str(name): group
        for name, group in completions.groupby("model", sort=False)
    }
    size = {
        "prompts": int(rows["ppo"]["prompt_id"].nunique()),
        "samples": config.samples,
        "validation": int(config.split == "valid"),
        "literal": int(bool(config.prompt_texts)),
    }
    if "base" in rows:
        size["base_prompts"] = int(rows["base"]["prompt_id"].nunique())
    alone = {
        name: compute_metrics(group, bits_per_byte.get(name), rows["sft"])
        for name, group in rows.items()
    }
    for name in alone.keys() - set(MODELS):
        alone[name] |= compare_with_sft(
            rows[name], rows["sft"], RESAMPLES, seed
        )
    # At equal sampling, each may choose by the linter.
    ours, theirs = (
        name.format(config.samples)
        for name in (baselines.OURS, baselines.LINTER)
    )
    pairs = {
        "gain": ("ppo", "sft"),
        "gain_sft": ("sft", "base"),
        "gain_best_of": (ours, theirs),
    }
    gains = {
        key: compute_gains(
            _on_prompts_of(rows[before], rows[after]),
            rows[before],
            RESAMPLES,
            seed,
            rows["sft"],
        )
        for key, (after, before) in pairs.items()
        if after in rows and before in rows
    }
    metrics = {"size": size, **alone, **gains}
    rules = tabulate_rules(completions, RESAMPLES, seed)
    return Evaluation(completions, metrics, rules)


def _on_prompts_of(other: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose prompts another model completed too."""
    return rows[rows["prompt_id"].isin(other["prompt_id"])]
