"""What the reward models learn from, and what they are measured on.

Three sources: labelled snippets (half of them corrupted), unparsable ones that
do not parse, since a policy writes such too and no label is like them, and
rollouts of an earlier policy.
"""

import random
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from stylerl.config import RewardConfig
from stylerl.reward.preference_pair import Preference
from stylerl.reward_data import pairs, refresh

if TYPE_CHECKING:
    from stylerl.judge import Judge

MEASURED_UNPARSABLE = 4  # one unparsable pair to so many minimal ones held out


class Material(NamedTuple):
    """Texts with the judge's label, and pairs of texts, better one first."""

    labels: pd.DataFrame  # at least text, compliant and score
    pairs: list[Preference]
    rollouts: pd.DataFrame  # as `refresh.label` gives; learnt besides


def to_learn(
    labels: pd.DataFrame,
    rollouts: pd.DataFrame,
    judge: "Judge",
    config: RewardConfig,
    seed: int,
) -> Material:
    """What the training split gives, `unparsable_share` of it unparsable.

    `labels` are rows of labels.parquet.
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
    return Material(
        pd.concat(frames, ignore_index=True),
        learnt + refresh.pairs(new),
        new,
    )


def to_measure(
    labels: pd.DataFrame,
    rollouts: pd.DataFrame,
    judge: "Judge",
    config: RewardConfig,
    seed: int,
) -> Material:
    """What the validation split gives; unparsable pairs are of rule E999."""
    valid = labels[labels["split"] == "valid"]
    rng = random.Random(f"{seed}:damage")
    count = config.held_out // MEASURED_UNPARSABLE
    return Material(
        valid.head(config.held_out),
        [
            *pairs.minimal(valid, judge, config.held_out, seed),
            *pairs.unparsable(valid, judge, count, rng),
        ],
        rollouts[rollouts["split"] == "valid"],
    )
