"""The reward dataset: what the reward models are trained and evaluated on.

Labelled snippets, half of them corrupted, and snippets that were made
unparsable, since a policy writes such text too and no labelled snippet is like
that.
"""

import random
from typing import NamedTuple

import pandas as pd

from stylerl.config import RewardConfig
from stylerl.judge import Judge
from stylerl.reward_models import pairs
from stylerl.reward_models.pairs import Preference

HELD_OUT = 200  # labels, and as many minimal pairs, to measure on
UNPARSABLE_SHARE = 0.1  # of the labels, and of the pairs, to learn from
MINIMAL_PAIRS = 4  # of the eval set, for each unparsable pair


class RewardDataset(NamedTuple):
    """Texts with the judge's label, and pairs of texts, better one first."""

    labels: pd.DataFrame  # at least text and compliant
    pairs: list[Preference]


def train_set(
    labels: pd.DataFrame,
    judge: Judge,
    config: RewardConfig,
    seed: int,
) -> RewardDataset:
    """From the training split; UNPARSABLE_SHARE of it does not parse.

    `labels` are rows of labels.parquet.
    """
    train = labels[labels["split"] == "train"]
    rng = random.Random(f"{seed}:damage")
    count, several = (
        round(UNPARSABLE_SHARE * size)
        for size in (config.labels, config.pairs)
    )
    unparsable = pairs.unparsable(train, judge, count, rng)
    learnt = [
        *pairs.preferences(train, judge, config.pairs - several, seed),
        *pairs.unparsable(train, judge, several, rng),
    ]
    negatives = pd.DataFrame(
        {"text": [pair.rejected for pair in unparsable]}
    ).assign(compliant=False)
    human = train.head(config.labels - len(unparsable))
    columns = ["text", "compliant"]
    frames = [frame[columns] for frame in (human, negatives) if len(frame)]
    return RewardDataset(pd.concat(frames, ignore_index=True), learnt)


def eval_set(
    labels: pd.DataFrame,
    judge: Judge,
    seed: int,
) -> RewardDataset:
    """From the validation split; unparsable pairs have the rule E999."""
    valid = labels[labels["split"] == "valid"]
    rng = random.Random(f"{seed}:damage")
    count = HELD_OUT // MINIMAL_PAIRS
    return RewardDataset(
        valid.head(HELD_OUT),
        [
            *pairs.minimal(valid, judge, HELD_OUT, seed),
            *pairs.unparsable(valid, judge, count, rng),
        ],
    )
