"""Baselines on the same prompts: a choice, and the human.

The best of n by the reward model is what that reward is worth without PPO;
the human's own text shows the metrics of real code.  Each is a table as
generations.py makes them, without KL.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from stylerl.config import EvaluateConfig
from stylerl.evaluation.measurement.generations import (
    REFERENCE,
    Generations,
    Source,
    count_tokens,
)
from stylerl.evaluation.measurement.heldout import Prompt
from stylerl.lm.models import load_tokenizer
from stylerl.reward import scorers


def add_baselines(
    sampled: Generations,
    prompts: Sequence[Prompt],
    sft: Source,
    config: EvaluateConfig,
    classifier: Path | None,
) -> pd.DataFrame:
    """The models' completions, followed by those of each baseline.

    With `classifier`, a reward model's folder, the models' completions have
    its P(compliant) in a column `reward`, and the best of n are added.
    """
    tokenizer = load_tokenizer(*sft)
    completions = sampled.completions
    parts = [
        completions,
        written_by_humans(prompts, tokenizer),
    ]
    if classifier is not None:
        parts[0] = _add_reward(completions, classifier)
        own = parts[0][parts[0]["model"] == REFERENCE]
        extra = _add_reward(sampled.extra_samples, classifier)
        pool = pd.concat([own, extra], ignore_index=True)
        sizes = {config.samples, config.best_of} - {1}
        parts += [best_of(pool, n) for n in sorted(sizes)]
    return pd.concat(parts, ignore_index=True)


def written_by_humans(
    prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerBase
) -> pd.DataFrame:
    """The baseline `human`: what each prompt's author wrote."""
    known = [prompt for prompt in prompts if prompt.human is not None]
    texts = [str(prompt.human) for prompt in known]
    return pd.DataFrame(
        {
            "model": "human",
            "prompt_id": [prompt.id for prompt in known],
            "sample": 0,
            "prompt": [prompt.text for prompt in known],
            "completion": texts,
            "judged": texts,
            "finished": True,
            "tokens": count_tokens(tokenizer, texts),
            "kl": math.nan,
        }
    )


def best_of(rows: pd.DataFrame, n: int) -> pd.DataFrame:
    """The baseline `best_of_N`: of each prompt's n samples the best-rewarded.

    `rows` are SFT's, with a column `reward`; prompts with fewer than n are
    left out, and the first of equals is taken.
    """
    count = rows.groupby("prompt_id")["sample"].transform("size")
    full = rows[count >= n]
    full = full[full["sample"] < n]
    best = full.groupby("prompt_id", sort=False)["reward"].idxmax()
    return full.loc[best].assign(model=f"best_of_{n}", sample=0, kl=math.nan)


def _add_reward(table: pd.DataFrame, classifier: Path) -> pd.DataFrame:
    """The table with the reward model's P(compliant) of each completion."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = (table["prompt"] + table["completion"]).tolist()
    scores = scorers.score_texts(*scorers.load(classifier, device), texts)
    return table.assign(reward=scores)
