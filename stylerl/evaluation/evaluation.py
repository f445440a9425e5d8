"""Before and after: base, SFT and PPO on prompts that no training saw.

    evaluate(sources, snippets, judge, config, seed)

samples the same prompts under the same seeds from every model
(`contenders`), adds baselines (`baselines`), judges all of it, and measures
it (`measures`).  What each number means stands in docs/metrics.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import models
from stylerl.config import EvaluateConfig
from stylerl.evaluation import baselines, contenders, heldout, measures
from stylerl.evaluation.contenders import Source
from stylerl.evaluation.statistics import Floats
from stylerl.judge import Judge
from stylerl.reward.scorers import score_texts


class Evaluation(NamedTuple):
    """What the stage writes: tables and the numbers in them."""

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
) -> Evaluation:
    """Compare the models `base`, `sft` and `ppo` of `sources`.

    With `classifier`, a reward model's folder, and several samples a
    prompt, the best of SFT's by that model is a baseline.

    Raises:
        DataError: the test split holds no prompt that is clean.
        ModelError: a model cannot be loaded, or a prompt is too long.
    """
    prompts = heldout.literal_prompts(
        config.prompt_texts
    ) or heldout.held_out_prompts(snippets, judge, config.prompts, seed)
    texts = heldout.human_texts(snippets, config.human_snippets, seed)
    table, bits = contenders.put_to_work(sources, prompts, texts, config, seed)
    tokenizer = models.load_tokenizer(*sources["sft"])
    parts = [
        table,
        baselines.formatted(table, tokenizer, judge.config.max_line_length),
        baselines.written_by_humans(prompts, tokenizer),
    ]
    if classifier is not None and config.samples > 1:
        parts.append(baselines.best_of(table, _rewards(table, classifier)))
    completions = contenders.judge_completions(
        pd.concat(parts, ignore_index=True), judge
    )
    metrics = _measure(completions, config, seed)
    for name, cost in bits.items():
        metrics[name]["bits_per_byte"] = round(cost, measures.DIGITS)
    rules = measures.rules(completions, config.bootstrap, seed)
    return Evaluation(completions, metrics, rules)


def _measure(
    completions: pd.DataFrame, config: EvaluateConfig, seed: int
) -> dict[str, Any]:
    """Every number of every model, and the gains between them."""
    rows = {
        str(name): own
        for name, own in completions.groupby("model", sort=False)
    }
    size = {
        "prompts": int(rows["ppo"]["prompt_id"].nunique()),
        "samples": config.samples,
    }
    gains = {
        key: measures.gains(rows[after], rows[before], config.bootstrap, seed)
        for key, after, before in (
            ("gain", "ppo", "sft"),
            ("gain_sft", "sft", "base"),
        )
    }
    each = {name: measures.measure(own) for name, own in rows.items()}
    return {"size": size, **each, **gains}


def _rewards(table: pd.DataFrame, classifier: Path) -> Floats:
    """The reward model's score of each of SFT's completions."""
    tokenizer = models.load_tokenizer(classifier)
    model = models.load_scorer(classifier, tokenizer=tokenizer)
    rows = table[table["model"] == "sft"]
    texts = (rows["prompt"] + rows["completion"]).tolist()
    return score_texts(model, tokenizer, texts)
