"""Reward functions: what one may return, and those that params.yaml names.

A reward function takes the prompts and the completions of a batch, two lists
of strings, and gives one number for each.  `ppo.reward` names a function of
the user's own as `module:function`; its module must be importable from the
root of the checkout.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stylerl.errors import ConfigError, TrainingError

LARGEST = 1e18  # its square, and sums of such, are finite in fp32
Named = Mapping[str, Sequence[float]]
RewardFunction = Callable[[list[str], list[str]], Sequence[float]]


class TokenReward(NamedTuple):
    """A part of the score, and the character whose token it belongs to."""

    position: int  # in the completion; a position before it counts as 0
    amount: float


class Feedback(NamedTuple):
    """A grader's answer for a batch: one entry a completion in every list."""

    reward: Sequence[float] | Named  # named parts are summed
    tokens: Sequence[Sequence[TokenReward]] | None = None  # parts of it
    monitored: Named = {}  # logged, and never rewarded


# Prompts, completions, and which ended before the token limit.  If the grader
# has a true attribute `whole_lines`, a completion that did not end arrives
# without its last line, which was cut.
Grader = Callable[[list[str], list[str], list[bool]], Feedback]


def by_reward(reward: RewardFunction) -> Grader:
    """A grader that gives each completion, as it was sampled, a reward.

    Raises:
        ConfigError: it is no function of prompts and completions.
    """
    check(reward, "the reward", "prompts", "completions")
    return lambda prompts, texts, _: Feedback(reward(prompts, texts))


def load(name: str) -> RewardFunction:
    """The function that `module:function` names.

    Raises:
        ConfigError: it cannot be imported, or is nothing to call.
    """
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever the module raises
        raise ConfigError(
            f"a reward function must be importable; {name} is not "
            f"({type(error).__name__}: {error}): write MODULE:FUNCTION, with "
            "the module in the root of the checkout or installed"
        ) from error
    check(function, f"the reward {name}", "prompts", "completions")
    loaded: RewardFunction = function
    return loaded


def check(function: Any, name: str, *takes: str) -> None:
    """Check that a function takes the arguments that it will be given.

    Raises:
        ConfigError: it cannot.
    """
    rule = f"{name} must be a function ({', '.join(takes)})"
    if not callable(function):
        raise ConfigError(f"{rule}; got a {type(function).__name__}")
    try:
        inspect.signature(function).bind(*takes)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{rule}; got one for others: {error}") from error


def source(name: str) -> Path | None:
    """The file of a loaded `module:function`; None where it has none."""
    module = importlib.import_module(name.partition(":")[0])
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def columns(
    given: Sequence[float] | Named, count: int, name: str = "reward"
) -> dict[str, list[float]]:
    """The reward of a grader as named lists of `count` numbers.

    A plain sequence becomes the one column `name`.

    Raises:
        TrainingError: not one finite number an episode.
    """
    named = given if isinstance(given, Mapping) else {name: given}
    return {key: column(key, named[key], count) for key in named}


def column(name: str, values: Sequence[float], count: int) -> list[float]:
    """The numbers that a reward function gave `count` episodes.

    Raises:
        TrainingError: not one finite number an episode.
    """
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != count:
        raise TrainingError(
            "a reward function must give one number an episode; "
            f"{name} gave {values!r:.80} for {count}"
        )
    for episode, value in enumerate(numbers):
        if not abs(value) <= LARGEST:
            raise TrainingError(
                f"a reward must be finite, and at most {LARGEST:g} in size; "
                f"{name} gave {value} for episode {episode}: check the "
                "function"
            )
    return numbers
