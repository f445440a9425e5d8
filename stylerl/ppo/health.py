"""Alarms: what can go wrong in PPO, how it shows, why, and what to do.

`alarms(history)` looks at the metrics of all updates so far, the latest
last, and returns the alarms that the latest update raises.  The thresholds
are those that the field reports as healthy; docs/ppo-log.md lists them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

History = Sequence[Mapping[str, float]]
FLAT = 0.01  # standard deviation of scores that are all the same
SMOOTHED = 5  # updates in the means that trends are judged by


@dataclass(frozen=True)
class Alarm:
    """One thing that is wrong; `critical` alarms stop or roll back."""

    name: str
    finding: str  # the rule and the value that broke it
    cause: str
    remedy: str
    critical: bool = False

    def __str__(self) -> str:
        """The alarm as one paragraph."""
        return f"{self.name}: {self.finding}. {self.cause} {self.remedy}"


class _Rule(NamedTuple):
    name: str
    cause: str
    remedy: str
    # What is wrong, in words, and whether it is critical; None if nothing.
    check: Callable[[History], tuple[str, bool] | None]


def alarms(history: History) -> list[Alarm]:
    """The alarms that the latest update raises."""
    if not history:
        return []
    found = []
    for rule in _RULES:
        if (broken := rule.check(history)) is not None:
            finding, critical = broken
            found.append(
                Alarm(rule.name, finding, rule.cause, rule.remedy, critical)
            )
    return found


def markdown(history: History) -> str:
    """Every alarm that was triggered, as a table; "" if none was."""
    updates: dict[str, list[int]] = {}
    latest: dict[str, Alarm] = {}
    for update in range(1, len(history) + 1):
        for alarm in alarms(history[:update]):
            updates.setdefault(alarm.name, []).append(update)
            latest[alarm.name] = alarm
    rows = [
        f"| {name} | {len(when)}, from {when[0]} to {when[-1]} | "
        f"{latest[name].finding} | {latest[name].cause} | "
        f"{latest[name].remedy} |"
        for name, when in updates.items()
    ]
    if not rows:
        return ""
    head = "| alarm | updates | at last | cause | remedy |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _reward_collapse(history: History) -> tuple[str, bool] | None:
    now = history[-1]
    if now["objective/score"] < -10:
        mean = now["objective/score"]
        return f"the mean score is {mean:.2f}, below -10", True
    spread = now["objective/score_std"]
    if spread < FLAT:
        return (
            f"the scores' standard deviation is {spread:.4f}, below {FLAT}",
            False,
        )
    return None


def _kl_explosion(history: History) -> tuple[str, bool] | None:
    kl = history[-1]["objective/kl"]
    if kl > 15:
        return f"KL to the reference is {kl:.1f} nats, above 15", True
    if kl > 10:
        return f"KL to the reference is {kl:.1f} nats, above 10", False
    return None


def _kl_negative(history: History) -> tuple[str, bool] | None:
    kl = history[-1]["objective/kl"]
    if kl < -1:
        return f"the estimate of KL is {kl:.2f} nats, below -1", False
    return None


def _entropy_collapse(history: History) -> tuple[str, bool] | None:
    now, first = (h["objective/entropy"] for h in (history[-1], history[0]))
    if now < 0.1 * first:
        return (
            f"entropy is {now:.3f} nats a token, a tenth of the first "
            f"update's {first:.3f} or less",
            True,
        )
    return None


def _updates_too_big(history: History) -> tuple[str, bool] | None:
    share = history[-1].get("policy/clipfrac", 0.0)  # no step, no clip
    if share > 0.5:
        return f"the clip fraction is {share:.2f}, above 0.5", False
    return None


def _value_head_broken(history: History) -> tuple[str, bool] | None:
    """The head starts at 0, so its first updates do not count; where all
    scores are the same there is no variance to explain; and the baseline
    auto does not use a value that explains none."""
    flat = history[-1]["objective/score_std"] < FLAT
    name = "value/explained_variance"
    judged = name in history[-1] and "value/used" not in history[-1]
    if flat or len(history) < 2 * SMOOTHED or not judged:
        return None
    explained = _recent(history, name)
    if explained < 0:
        return (
            f"the value explains {explained:.2f} of the returns' variance, "
            "below 0",
            False,
        )
    return None


def _policy_collapse(history: History) -> tuple[str, bool] | None:
    if len(history) <= SMOOTHED:
        return None
    for name, words in (
        ("response/unique", "the share of different responses"),
        ("response/distinct_3", "the share of different 3-grams"),
        ("response/length", "the length of the responses"),
    ):
        first, now = _initial(history, name), _recent(history, name)
        if now < 0.5 * first:
            return f"{words} fell by half, {first:.3g} to {now:.3g}", True
    repeated = "judge/repeated_lines"
    if repeated in history[-1]:
        first, now = _initial(history, repeated), _recent(history, repeated)
        if now > first + 0.2:
            return (
                f"the share of repeated lines rose, {first:.2f} to {now:.2f}",
                True,
            )
    return None


def _reward_hacking(history: History) -> tuple[str, bool] | None:
    """The reward rises while what it should measure falls."""
    if len(history) < 2 * SMOOTHED or "judge/score" not in history[-1]:
        return None
    score = "objective/score"
    spread = max(_initial(history, "objective/score_std"), 0.01)
    gained = _recent(history, score) - _initial(history, score)
    if gained < 0.25 * spread - 1e-9:
        return None
    for name, words, fall in (
        ("judge/compliance", "compliance", 0.05),
        ("judge/parse_rate", "the parse rate", 0.05),
        ("judge/statements", "the number of statements", None),
        ("response/length", "the length of the responses", None),
    ):
        if name not in history[-1]:
            continue
        first, now = _initial(history, name), _recent(history, name)
        if now < (0.7 * first if fall is None else first - fall):
            return (
                f"the reward rose by {gained:.2f} while {words} fell from "
                f"{first:.2f} to {now:.2f}",
                True,
            )
    return None


def _initial(history: History, name: str) -> float:
    """Mean over the first updates."""
    first = [row[name] for row in history[:SMOOTHED]]
    return sum(first) / len(first)


def _recent(history: History, name: str) -> float:
    """Mean over the last updates."""
    last = [row[name] for row in history[-SMOOTHED:]]
    return sum(last) / len(last)


_RULES = (
    _Rule(
        "reward collapse",
        "All episodes are worth the same, so the advantages are noise.",
        "Look at a few completions and their scores: the reward function "
        "may be constant or broken, or everything may fall below a floor.",
        _reward_collapse,
    ),
    _Rule(
        "KL explosion",
        "The policy has left the reference; its text is likely to be odd.",
        "Raise ppo.kl_coef, or lower ppo.learning_rate or "
        "ppo.update_epochs, or "
        "set ppo.kl_control to proportional.",
        _kl_explosion,
    ),
    _Rule(
        "negative KL",
        "KL cannot be negative: the tokens were not drawn from the "
        "distribution that is scored, because of a generation setting "
        "(another temperature, top-k or top-p, a forced length).",
        "Sample with ppo.temperature alone.",
        _kl_negative,
    ),
    _Rule(
        "entropy collapse",
        "The policy is nearly deterministic and explores no more.",
        "Raise ppo.ent_coef to 0.01 or so, or ppo.kl_coef; lower "
        "ppo.learning_rate.",
        _entropy_collapse,
    ),
    _Rule(
        "updates too big",
        "More than half of the tokens reached the clip range.",
        "Lower ppo.learning_rate or ppo.update_epochs; 0.1 to 0.3 is healthy.",
        _updates_too_big,
    ),
    _Rule(
        "value head broken",
        "The value predicts the returns worse than their mean does.",
        "Lower ppo.value_learning_rate if the value changes erratically, "
        "raise it if it hardly changes.",
        _value_head_broken,
    ),
    _Rule(
        "policy collapse",
        "The policy writes the same, or less and less.",
        "Raise ppo.kl_coef or the weight of substance in ppo.reward; look "
        "at the completions for what the reward prefers.",
        _policy_collapse,
    ),
    _Rule(
        "reward hacking",
        "The policy has found what pleases the reward and nobody else.",
        "Put the linter into ppo.reward, train the reward model on such "
        "completions, or raise ppo.kl_coef.",
        _reward_hacking,
    ),
)
