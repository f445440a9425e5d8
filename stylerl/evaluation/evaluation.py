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

from stylerl.config import EvaluateConfig
from stylerl.evaluation import (
    baselines,
    contenders,
    heldout,
    measures,
    opinions,
)
from stylerl.evaluation.contenders import Source
from stylerl.judge import Judge
from stylerl.lm import models
from stylerl.reward.scorers import score_texts

CONTENDERS = ("base", "sft", "ppo")


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

    With `classifier`, a reward model's folder, the best of n of SFT's by
    that model are baselines, and its promises stand beside the verdicts.

    Raises:
        DataError: the split holds no prompt that is clean.
        ModelError: a model cannot be loaded, or a prompt is too long.
    """
    prompts = heldout.literal_prompts(
        config.prompt_texts
    ) or heldout.held_out_prompts(snippets, judge, config, seed)
    texts = heldout.human_texts(snippets, config, seed)
    work = contenders.put_to_work(sources, prompts, texts, config, seed)
    tokenizer = models.load_tokenizer(*sources["sft"])
    width = judge.config.max_line_length
    parts = [
        work.table,
        baselines.formatted(work.table, tokenizer, width),
        baselines.written_by_humans(prompts, tokenizer),
    ]
    if classifier is not None:
        table, spare = (
            _rewarded(rows, classifier) for rows in (work.table, work.spare)
        )
        parts[0] = table
        own = table[table["model"] == "sft"]
        pool = pd.concat([own, spare], ignore_index=True)
        parts += [
            baselines.best_of(pool, n)
            for n in sorted({config.samples, config.best_of} - {1})
        ]
    every = pd.concat(parts, ignore_index=True)
    opinions_of = opinions.ask(every, width)
    judged = contenders.judge_completions(every, judge)
    completions = pd.concat([judged, opinions_of], axis=1)
    metrics = _measure(completions, config, seed)
    for name, cost in work.bits.items():
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
        "validation": int(config.split == "valid"),
        "literal": int(bool(config.prompt_texts)),
    }
    gains = {
        key: measures.gains(rows[after], rows[before], config.bootstrap, seed)
        for key, after, before in (
            ("gain", "ppo", "sft"),
            ("gain_sft", "sft", "base"),
        )
    }
    each = {name: measures.measure(own) for name, own in rows.items()}
    for name in each.keys() - set(CONTENDERS):
        each[name] |= measures.over_sft(
            rows[name], rows["sft"], config.bootstrap, seed
        )
    return {"size": size, **each, **gains}


def _rewarded(table: pd.DataFrame, classifier: Path) -> pd.DataFrame:
    """The table with the reward model's P(compliant) of each completion."""
    tokenizer = models.load_tokenizer(classifier)
    model = models.load_scorer(classifier, tokenizer=tokenizer)
    texts = (table["prompt"] + table["completion"]).tolist()
    return table.assign(reward=score_texts(model, tokenizer, texts))
