"""What is asked of a run, checked before a server or a stage starts."""

from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from stylerl.config import Params
from stylerl.errors import ConfigError, DataError, ModelError
from stylerl.pipeline import workspace

LEARNT = ("classifier", "pairwise")
MAX_ROUNDS = 1000
MAX_POINTS = 1000
Setting = dict[str, Any]


def check_files(params: Params) -> str:
    """Check the files that parameters name; the judge's identity.

    Raises:
        ConfigError: the judge's configuration, a plugin or a function of
            the reward is missing.
        DataError: the preferences cannot be read, or they or the rollouts
            are no regular file.
        ModelError: a folder to start from holds no model.
    """
    from stylerl.judge import Judge
    from stylerl.reward import functions
    from stylerl.reward_models import preferences

    judge = Judge(params.judge).identity
    for name in params.ppo.reward:
        if ":" in name:
            functions.load(name)
    for key in ("preferences", "rollouts"):
        path = Path(getattr(params.reward, key))
        if path.exists() and not path.is_file():
            raise DataError(
                f"reward.{key} must be a regular file; {path} is none: name "
                "another"
            )
    preferences.load(Path(params.reward.preferences))
    for key, base in (
        ("sft.base", params.sft.base),
        ("reward.base", params.reward.base),
    ):
        made = Path(base).is_relative_to("artifacts")  # by a stage
        if not made and not Path(base, "config.json").is_file():
            raise ModelError(
                f"{key} must be a folder with a model; {base} has no "
                "config.json: fill it, as with `hf download OWNER/NAME "
                f"--local-dir {base}`, or name another"
            )
    return judge


def check_rounds(
    rounds: int, preset: str | None, changes: Mapping[str, Any] | None
) -> None:
    """Check a run of `rounds` rounds, and its parameters.

    Raises:
        ConfigError: there are no rounds, or all would be the first again,
            since PPO asks no reward model; or as `workspace.resolve`.
        DataError: as `check_files`.
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise ConfigError(
            f"rounds must be at least 1 and at most {MAX_ROUNDS}; got {rounds}"
        )
    params = workspace.resolve(preset, changes)
    parts = ", ".join(params.ppo.reward)
    if rounds > 1 and not any(name in parts for name in LEARNT):
        raise ConfigError(
            "a second round needs a reward that is learnt; ppo.reward has "
            f'{parts}: --set "ppo.reward={{classifier: 1}}"'
        )
    check_files(params)


def points(
    grid: Mapping[str, Sequence[Any]], changes: Mapping[str, Any]
) -> list[Setting]:
    """Every combination of a grid's values, each of which breaks no rule.

    Args:
        grid: values by dotted key, such as {"ppo.kl_coef": [0.05, 0.1]}.
        changes: values of every point.

    Raises:
        ConfigError: as `combinations`, or one of them is not allowed.
        DataError: as `check_files`.
    """
    found = combinations(grid)
    resolved = (workspace.resolve(None, {**changes, **each}) for each in found)
    for params in {
        (p.judge, p.reward, *p.ppo.reward): p for p in resolved
    }.values():
        check_files(params)
    return found


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """Every combination of a grid's values.

    Raises:
        ConfigError: a key has no values, or there are too many combinations.
    """
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(
                f"a grid needs a list of values, such as {key}=[0.05,0.1]; "
                f"got {values!r}"
            )
    found = [
        dict(zip(grid, values, strict=True))
        for values in islice(product(*grid.values()), MAX_POINTS + 1)
    ]
    if len(found) > MAX_POINTS:
        raise ConfigError(
            f"a sweep must have at most {MAX_POINTS} points; got more: leave "
            "values out"
        )
    return found
