"""How much of a reward lies between prompts: what a baseline can explain.

Of N prompts with k completions each, the one-way intraclass correlation is

    ICC = (MSB - MSW) / (MSB + (k - 1) MSW)

with MSB the mean square between prompts and MSW that within them (Shrout and
Fleiss, Psychological Bulletin 86, 1979, ICC(1,1)); chance may bring it below
zero.  A value of the prompt explains no more of the variance than that.

The mean of k - 1 siblings, as `ppo.baseline: group` takes it, knows the
prompt and is noisy: an advantage has (1 - ICC)(1 + 1 / (k - 1)) times the
variance that the batch's mean leaves, which is less than 1 where k > 1 / ICC.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from stylerl import config, storage
from stylerl.config import EvaluateConfig, Params
from stylerl.data.places import places_of_labels
from stylerl.evaluation.measurement.bootstrap import (
    Floats,
    Interval,
    percentiles,
    resampled_sums,
)
from stylerl.ppo.factory import build_trainer

PROMPTS, SAMPLES = 64, 4
FILTER = Path("artifacts/filter")
LABELS = Path("artifacts/label/labels.parquet")
SFT = Path("artifacts/sft")
REWARD_MODELS = Path("artifacts/reward")


class Signal(NamedTuple):
    """The share of the variance that lies between prompts, with interval."""

    compliance: Interval
    reward: Interval
    prompts: int


def measure(root: Path, params: Params) -> Signal:
    """Sample the SFT model of `root` as PPO would, and score it as PPO would.

    Raises:
        ConfigError: the parameters of PPO do not fit together.
        DataError: there are no labels, or no prompts among them.
        ModelError: the SFT model or a reward model is not there.
    """
    wanted = config.override(
        params,
        {
            "ppo.baseline": "group",
            "ppo.group_size": SAMPLES,
            "ppo.gamma": 1.0,
            "ppo.prompts": PROMPTS,
            "ppo.batch_size": PROMPTS,  # so of each one sample of SFT
            "ppo.num_minibatches": 1,
            "ppo.validate_every": 0,
            "ppo.keep": "last",
            "ppo.monitor": "none",
            "ppo.on_alarm": "warn",
        },
    )
    labels = storage.read_table(root / LABELS)
    trainer = build_trainer(
        root / SFT,
        wanted,
        labels,
        reward_models=root / REWARD_MODELS,
        places=places_of_labels(root / FILTER, labels),
    )
    batch = trainer.rollout(trainer.prompts)
    both = (batch.monitored["compliance"], batch.scores)
    compliance, reward = (
        share_between(each.double().numpy().reshape(-1, SAMPLES))
        for each in both
    )
    return Signal(compliance, reward, len(trainer.prompts))


def share_between(values: Floats) -> Interval:
    """The ICC of (N, k), N prompts by k samples, and its bootstrap interval.

    Prompts are resampled whole.  NaN where all values are equal.
    """
    means = values.mean(axis=1)  # (N,)
    within = ((values - means[:, None]) ** 2).sum(axis=1)
    sums = np.stack([means, means**2, within], axis=1)  # (N, 3)
    drawn = resampled_sums(sums, EvaluateConfig.bootstrap, seed=0)  # (B, 3)
    found, spread = (_icc(s, *values.shape) for s in (sums.sum(axis=0), drawn))
    if not np.isfinite(found):
        return Interval(*[float("nan")] * 3)
    bounds = percentiles(spread[np.isfinite(spread)])
    return Interval(float(found), *bounds.tolist())


def _icc(sums: Floats, prompts: int, samples: int) -> Floats:
    """From (..., 3), over prompts: means, their squares, squares within."""
    total, squares, within = np.moveaxis(sums, -1, 0)
    between = samples * (squares - total**2 / prompts) / (prompts - 1)
    within = within / (prompts * (samples - 1))
    whole = between + (samples - 1) * within
    share: Floats = (between - within) / np.where(whole > 0, whole, np.nan)
    return share


def group_variance(share: float, samples: int) -> float:
    """Variance of an advantage under `group`, that under `batch` being 1."""
    return (1 - share) * samples / (samples - 1)


def meaning(share: float, samples: int) -> str:
    """What an ICC says of a group of so many samples, in words."""
    if np.isnan(share):
        return "all rewards are equal: no baseline says anything"
    variance = (
        f"a group of {samples} has {group_variance(share, samples):.2f} "
        "times the variance of the batch's mean"
    )
    if share <= 0:
        return f"{variance}; no size of it would pay"
    pays = 1 / share
    verdict = "pays" if samples > pays else "would pay"
    return f"{variance}; it {verdict} above {pays:.0f} samples a prompt"
