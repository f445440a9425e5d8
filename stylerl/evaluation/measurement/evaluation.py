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

from stylerl.config import EvaluateConfig
from stylerl.evaluation.measurement import (
    baselines,
    generations,
    heldout,
    standardised,
    verdicts,
)
from stylerl.evaluation.measurement.generations import Source
from stylerl.evaluation.measurement.metrics import (
    compare_with_sft,
    compute_gains,
    compute_metrics,
    tabulate_rules,
)
from stylerl.judge import Judge
from stylerl.judge.place import Place

MODELS = ("base", "sft", "ppo")  # the column `model`, in this order
LENGTHS = ("sft", "ppo", "human")  # whose compliance is told by length


class Evaluation(NamedTuple):
    """What the stage writes: tables and the metrics computed from them."""

    completions: pd.DataFrame  # one row a model, prompt and sample
    metrics: dict[str, Any]  # metrics/evaluate.json
    rules: pd.DataFrame  # metrics/rules.csv


def evaluate(
    sources: Mapping[str, Source],
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
    classifier: Path | None = None,
    places: Mapping[str, Place] | None = None,
) -> Evaluation:
    """Compare the models `base`, `sft` and `ppo` of `sources`.

    With `classifier`, a reward model's folder, the best of n of SFT's by
    that model are baselines, and the compliance that it predicts is compared
    with the verdicts.  With `places`, by the snippet's id, completions are
    judged in the files that their prompts were cut from.

    Raises:
        DataError: the split holds no prompt that is clean.
        ModelError: a model cannot be loaded, or a prompt is too long.
    """
    # 1. Sample: every model completes the same prompts from the same seeds.
    prompts = heldout.draw_prompts(snippets, judge, config, seed, places)
    texts = heldout.draw_human_texts(snippets, config, seed)
    sampled = generations.generate_completions(
        sources, prompts, texts, config, seed
    )
    # 2. Baselines: what else could have been done on the same prompts.
    completions = baselines.add_baselines(
        sampled,
        prompts,
        sources["sft"],
        config,
        judge.width,
        classifier,
    )
    # 3. Judge: the judge, and linters that no reward has seen.
    completions = verdicts.judge_completions(completions, judge, places)
    # 4. Measure.
    metrics = _compute_all_metrics(
        completions, sampled.bits_per_byte, config, seed
    )
    rules = tabulate_rules(completions, config.bootstrap, seed)
    return Evaluation(completions, metrics, rules)


def _compute_all_metrics(
    completions: pd.DataFrame,
    bits_per_byte: Mapping[str, float],
    config: EvaluateConfig,
    seed: int,
) -> dict[str, Any]:
    """Every metric of every model, and the gains between them."""
    rows = {
        str(name): own
        for name, own in completions.groupby("model", sort=False)
    }
    size = {
        "prompts": int(rows["ppo"]["prompt_id"].nunique()),
        "samples": config.samples,
        "validation": int(config.split == "valid"),
        "literal": int(bool(config.prompt_texts)),
    }
    each = {
        name: compute_metrics(own, bits_per_byte.get(name), rows["sft"])
        for name, own in rows.items()
    }
    for name in each.keys() - set(MODELS):
        each[name] |= compare_with_sft(
            rows[name], rows["sft"], config.bootstrap, seed
        )
    base, sft, ppo = (rows[name] for name in MODELS)
    gain, gain_sft = (
        compute_gains(after, before, config.bootstrap, seed, reference=sft)
        for after, before in ((ppo, sft), (sft, base))
    )
    lengths = {
        name: standardised.by_length(own)
        for name, own in rows.items()
        if name in LENGTHS
    }
    return {
        "size": size,
        **each,
        "gain": gain,
        "gain_sft": gain_sft,
        "lengths": lengths,
    }
