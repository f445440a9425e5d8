"""Baselines on the same prompts: a choice among samples, and the human.

The best of n by the linter is what choosing is worth without any training,
since the linter is there when code is written; from PPO's samples, what it is
worth beside training.  The best of n by the reward model is what that reward
is worth without PPO.  The human's own text shows the metrics of real code.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from stylerl.config import EvaluateConfig
from stylerl.evaluation.measurement.generations import (
    REFERENCE,
    count_tokens,
)
from stylerl.evaluation.measurement.heldout import Prompt
from stylerl.judge.outcome import Outcome
from stylerl.reward import scorers

Predict = Callable[[list[str]], Iterable[float]]

LINTER = "linter_best_of_{}"  # of SFT's samples, by how many there are
OURS = "ppo_linter_best_of_{}"  # of PPO's
CLASSIFIER = "best_of_{}"  # of SFT's, by a reward model


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


def choose(
    judged: pd.DataFrame,
    config: EvaluateConfig,
    predict: Predict | None = None,
) -> pd.DataFrame:
    """The judged table with the best of n, n being `evaluate.samples`.

    By the linter of SFT's and of PPO's samples, and with `predict`, which
    scores texts, by that of SFT's; none of a single sample.
    """
    if config.samples == 1:
        return judged
    sft, ppo = (judged[judged["model"] == name] for name in (REFERENCE, "ppo"))
    chosen = {
        LINTER: best_of(sft, by_linter(sft)),
        OURS: best_of(ppo, by_linter(ppo)),
    }
    if predict is not None:
        texts = (sft["prompt"] + sft["completion"]).tolist()
        rewards = pd.Series([*predict(texts)], sft.index)
        chosen[CLASSIFIER] = best_of(sft, rewards)
    named = [
        rows.assign(model=name.format(config.samples))
        for name, rows in chosen.items()
    ]
    return pd.concat([judged, *named], ignore_index=True)


def by_linter(rows: pd.DataFrame) -> pd.Series:
    """Compliant before the others, which go by their style score."""
    compliant = rows["outcome"] == Outcome.COMPLIANT
    return compliant + rows["score"]


def best_of(rows: pd.DataFrame, rank: pd.Series) -> pd.DataFrame:
    """Of each prompt's samples the first of the highest rank."""
    best = rank.groupby(rows["prompt_id"], sort=False).idxmax()
    return rows.loc[best].assign(sample=0, kl=math.nan)


def predict_compliance(classifier: Path) -> Predict:
    """P(compliant) by a reward model's folder."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return partial(scorers.score_texts, *scorers.load(classifier, device))
