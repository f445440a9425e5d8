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
    BEST_OF,
    REFERENCE,
    Generations,
    count_tokens,
)
from stylerl.evaluation.measurement.heldout import Prompt
from stylerl.judge.outcome import Outcome
from stylerl.lm.encoding import load_tokenizer
from stylerl.reward import scorers

Predict = Callable[[list[str]], Iterable[float]]

EXTRA = "extra"  # SFT's further samples, which only a choice is made from
LINTER = "linter_best_of_{}"  # of SFT's samples, by how many there are
OURS = "ppo_linter_best_of_{}"  # of PPO's


def candidates(
    sampled: Generations, prompts: Sequence[Prompt], sft: str
) -> pd.DataFrame:
    """The models' completions, those to choose from, and the authors'."""
    extra = sampled.extra_samples.assign(model=EXTRA)
    human = written_by_humans(prompts, load_tokenizer(sft))
    return pd.concat([sampled.completions, extra, human], ignore_index=True)


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
    """The judged table with each best of n in the place of EXTRA's rows.

    n is `evaluate.samples` and BEST_OF; the keys are LINTER, OURS of the
    first n alone, and with `predict`, which scores texts, `best_of_N`.
    """
    # Compliant before the others, which go by their style score.
    compliant = judged["outcome"] == Outcome.COMPLIANT
    ranked = judged.assign(rank=compliant + judged["score"])
    pool = ranked[ranked["model"].isin([REFERENCE, EXTRA])]
    counts = sorted({config.samples, BEST_OF} - {1})
    choices = [(LINTER, pool, n) for n in counts]
    if config.samples > 1:
        ours = ranked[ranked["model"] == "ppo"]
        choices.append((OURS, ours, config.samples))
    if predict is not None:
        texts = (pool["prompt"] + pool["completion"]).tolist()
        rewarded = pool.assign(rank=[*predict(texts)])
        choices += [("best_of_{}", rewarded, n) for n in counts]
    chosen = [
        best_of(rows, n).assign(model=name.format(n))
        for name, rows, n in choices
    ]
    kept = judged[judged["model"] != EXTRA]
    return pd.concat([kept, *chosen], ignore_index=True)


def best_of(rows: pd.DataFrame, n: int) -> pd.DataFrame:
    """Of each prompt's first n samples the one of the highest `rank`.

    Prompts with fewer are left out, and the first of equals is taken.
    """
    count = rows.groupby("prompt_id")["sample"].transform("size")
    full = rows[(count >= n) & (rows["sample"] < n)]
    best = full.groupby("prompt_id", sort=False)["rank"].idxmax()
    chosen = full.loc[best].drop(columns="rank")
    return chosen.assign(sample=0, kl=math.nan)


def predict_compliance(classifier: Path) -> Predict:
    """P(compliant) by a reward model's folder."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return partial(scorers.score_texts, *scorers.load(classifier, device))
