"""The reward dataset: what the reward models are trained and evaluated on.

Three sources: labelled snippets (half of them corrupted), snippets that were
made unparsable, since a policy writes such text too and no labelled snippet is
like that, and rollouts of an earlier policy.
"""

import random
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from stylerl.config import RewardConfig
from stylerl.reward_models import pairs, refresh
from stylerl.reward_models.preference_pair import Preference

if TYPE_CHECKING:
    from stylerl.judge import Judge

MINIMAL_PAIRS = 4  # of the eval set, for each unparsable pair


class RewardDataset(NamedTuple):
    """Texts with the judge's label, and pairs of texts, better one first."""

    labels: pd.DataFrame  # at least text, compliant and score
    pairs: list[Preference]
    rollouts: pd.DataFrame  # as `refresh.label` gives


def train_set(
    labels: pd.DataFrame,
    rollouts: pd.DataFrame,
    judge: "Judge",
    config: RewardConfig,
    seed: int,
) -> RewardDataset:
    """From the training split; `config.unparsable_share` of it does not parse.

    `labels` are rows of labels.parquet.  The rollouts are among the labels
    and the pairs as well.
    """
    train = labels[labels["split"] == "train"]
    rng = random.Random(f"{seed}:damage")
    count, several = (
        round(config.unparsable_share * size)
        for size in (config.labels, config.pairs)
    )
    unparsable = pairs.unparsable(train, judge, count, rng)
    learnt = [
        *pairs.preferences(train, judge, config.pairs - several, seed),
        *pairs.unparsable(train, judge, several, rng),
    ]
    negatives = pd.DataFrame(
        {"text": [pair.rejected for pair in unparsable]}
    ).assign(compliant=False, score=0.0)
    found = train.head(config.labels - len(unparsable))
    new = rollouts[rollouts["split"] == "train"]
    columns = ["text", "compliant", "score"]
    frames = [each[columns] for each in (found, negatives, new) if len(each)]
    return RewardDataset(
        pd.concat(frames, ignore_index=True),
        learnt + refresh.pairs(new),
        new,
    )


def eval_set(
    labels: pd.DataFrame,
    rollouts: pd.DataFrame,
    judge: "Judge",
    config: RewardConfig,
    seed: int,
) -> RewardDataset:
    """From the validation split; unparsable pairs have the rule E999."""
    valid = labels[labels["split"] == "valid"]
    rng = random.Random(f"{seed}:damage")
    count = config.held_out // MINIMAL_PAIRS
    return RewardDataset(
        valid.head(config.held_out),
        [
            *pairs.minimal(valid, judge, config.held_out, seed),
            *pairs.unparsable(valid, judge, count, rng),
        ],
        rollouts[rollouts["split"] == "valid"],
    )
