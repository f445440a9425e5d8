"""Alarms of PPO: the rule, the finding, its cause and its remedy.

`alarms(history)` looks at the metrics of all updates so far, the latest
last, and returns the alarms that the latest update raises.  docs/ppo-log.md
lists the limits.

A policy that is far from the reference, sure of itself or all of one kind is
what some rewards ask for: a model that learns to write one letter ends so.
So where no judge looks on, such a state is an alarm only while the objective
(score less KL penalty) has not clearly risen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

History = Sequence[Mapping[str, float]]
FLAT = 0.01  # deviation of scores that are all the same, also over their mean
RUNNING = 3  # updates that must be flat
SMOOTHED = 5  # updates in the means that trends are judged by
GAIN = 0.25  # of the scores' first deviation: a clear rise
FALL = 10.0  # of the same: no reward falls so far by learning
SURE = 3.0  # standard errors


class Advice(NamedTuple):
    """What is said with an alarm."""

    cause: str
    remedy: str


ADVICE = {
    "reward collapse": Advice(
        "All episodes are worth the same, so the advantages are noise.",
        "Look at a few completions and their scores: the reward function "
        "may be constant or broken, or everything may fall below a floor.",
    ),
    "KL explosion": Advice(
        "The policy has left the reference; its text is likely to be odd.",
        "Raise ppo.kl_coef, or lower ppo.learning_rate or ppo.update_epochs.",
    ),
    "sampling mismatch": Advice(
        "The tokens were not drawn from the distribution that is scored, "
        "because of a generation setting (another temperature, top-k or "
        "top-p, a forced length), so KL and ratio are wrong.",
        "Sample with ppo.temperature alone.",
    ),
    "entropy collapse": Advice(
        "The policy is nearly deterministic and explores no more.",
        "Raise ppo.kl_coef or ppo.temperature; lower ppo.learning_rate.",
    ),
    "updates too big": Advice(
        "One update changes the policy beyond what its samples can tell.",
        "Lower ppo.learning_rate or ppo.update_epochs; a clip fraction of "
        "0.1 to 0.3 is healthy.",
    ),
    "policy collapse": Advice(
        "The policy writes the same, or less and less.",
        "Raise ppo.kl_coef, or set ppo.keep_length; look at the completions "
        "for what the reward prefers.",
    ),
    "reward hacking": Advice(
        "The policy has found what pleases the reward and nobody else.",
        "Put the linter into ppo.reward, train the reward model on such "
        "completions, or raise ppo.kl_coef.",
    ),
}


class Alarm(NamedTuple):
    """A raised alarm."""

    name: str
    finding: str  # the rule and the value that broke it

    def __str__(self) -> str:
        """The alarm as one paragraph."""
        return f"{self.name}: {self.finding}. {' '.join(ADVICE[self.name])}"


def alarms(history: History) -> list[Alarm]:
    """The alarms that the latest update raises."""
    findings = (check(history) for check in CHECKS if history)
    return [alarm for alarm in findings if alarm]


def _reward_collapse(history: History) -> Alarm | None:
    """Scores that are flat at the end of a rise have nothing left to gain,
    and one batch may lack what is rarely rewarded."""
    score, now = "objective/score", history[-1]
    first, spread = _initial(history, score), _spread(history)
    if first - now[score] > FALL * max(spread, FLAT * abs(first)):
        return Alarm(
            "reward collapse",
            f"the mean score fell from {first:.2f} to {now[score]:.2f}, "
            f"more than {FALL:.0f} of its first standard deviations",
        )
    latest = history[-RUNNING:]
    flat = len(latest) == RUNNING and all(map(_is_flat, latest))
    if not flat or _objective_rose(history):
        return None
    return Alarm(
        "reward collapse",
        f"the scores' standard deviation is {now['objective/score_std']:.4f}, "
        f"below {FLAT} and below {FLAT:.0%} of their mean, for {RUNNING} "
        "updates running",
    )


def _kl_explosion(history: History) -> Alarm | None:
    """Above 15 at once; above 10 in the mean too, since one batch of long
    responses has more of it than the policy."""
    name = "objective/kl"
    kl = history[-1][name]
    if (
        min(kl, _recent(history, name)) <= 10
        and kl <= 15
        or _objective_rose(history)
    ):
        return None
    limit = 15 if kl > 15 else 10
    return Alarm(
        "KL explosion",
        f"KL to the reference is {kl:.1f} nats, above {limit}, and the score "
        "less its penalty has not risen",
    )


def _sampling_mismatch(history: History) -> Alarm | None:
    excess = history[-1].get("objective/mismatch", 0.0)
    if abs(excess) <= 0.05:
        return None
    side = "less" if excess > 0 else "more"
    return Alarm(
        "sampling mismatch",
        f"tokens are {abs(excess):.2f} nats {side} likely than the policy's "
        "entropy says, beyond chance by more than 0.05",
    )


def _entropy_collapse(history: History) -> Alarm | None:
    name = "objective/entropy"
    now, first = history[-1][name], history[0][name]
    if now >= 0.1 * first or _rose_unjudged(history):
        return None
    return Alarm(
        "entropy collapse",
        f"entropy is {now:.3f} nats a token, a tenth of the first update's "
        f"{first:.3f} or less",
    )


def _updates_too_big(history: History) -> Alarm | None:
    """Clipping bounds an update; it is too big where it does harm."""
    name = "updates too big"
    moved = history[-1].get("policy/approxkl", 0.0)
    if moved > 1:
        moved_by = f"moved the policy by {moved:.2f} nats a token"
        return Alarm(name, f"one update {moved_by}, above 1")
    share = history[-1].get("policy/clipfrac", 0.0)
    if (
        share > 0.5
        and len(history) > SMOOTHED
        and not _objective_rose(history)
    ):
        return Alarm(name, f"the clip fraction is {share:.2f}, above 0.5")
    return None


def _policy_collapse(history: History) -> Alarm | None:
    if len(history) <= SMOOTHED or _rose_unjudged(history):
        return None
    for name, words in (
        ("response/unique", "the share of different responses"),
        ("response/distinct_3", "the share of different 3-grams"),
        ("response/length", "the length of the responses"),
    ):
        first, now = _change(history, name)
        if now < 0.5 * first:
            fall = f"{words} fell by half, {first:.3g} to {now:.3g}"
            return Alarm("policy collapse", fall)
    first, now = _change(history, "judge/repeated_lines")
    if now <= first + 0.2:
        return None
    rise = f"the share of repeated lines rose, {first:.3g} to {now:.3g}"
    return Alarm("policy collapse", rise)


def _reward_hacking(history: History) -> Alarm | None:
    """The reward rises while what it should measure falls."""
    if len(history) < 2 * SMOOTHED or not _is_judged(history):
        return None
    score = "objective/score"
    gained = _recent(history, score) - _initial(history, score)
    if gained < GAIN * max(_spread(history), FLAT) - 1e-9:
        return None
    statements = "judge/statements"
    for name, words in {
        "judge/compliance": "compliance",
        "judge/score": "the judge's score",
        "judge/parse_rate": "the parse rate",
        statements: "the number of statements",
    }.items():
        first, now = _change(history, name)
        if now < (0.7 * first if name == statements else first - 0.05):
            return Alarm(
                "reward hacking",
                f"the reward rose by {gained:.2f} while {words} fell from "
                f"{first:.2f} to {now:.2f}",
            )
    return None


CHECKS: tuple[Callable[[History], Alarm | None], ...] = (
    _reward_collapse,
    _kl_explosion,
    _sampling_mismatch,
    _entropy_collapse,
    _updates_too_big,
    _policy_collapse,
    _reward_hacking,
)


def _is_flat(row: Mapping[str, float]) -> bool:
    """Whether all scores of an update are the same, at their own scale."""
    mean, deviation = row["objective/score"], row["objective/score_std"]
    return deviation < FLAT and deviation <= FLAT * abs(mean)


def _is_judged(history: History) -> bool:
    """Whether the linter's verdict on the rollouts is logged."""
    return "judge/score" in history[-1]


def _rose_unjudged(history: History) -> bool:
    """Whether the objective rises and no verdict of the linter is logged."""
    return _objective_rose(history) and not _is_judged(history)


def _objective_rose(history: History) -> bool:
    """Whether the objective, score less KL penalty, has clearly risen.

    Where every batch's scores are one number nothing says what clear is.
    """
    window = min(SMOOTHED, len(history) // 2)
    if window == 0 or all(map(_is_flat, history)):
        return False
    objective = [row["objective/rlhf_reward"] for row in history]
    gained = _mean(objective[-window:]) - _mean(objective[:window])
    return gained > GAIN * _spread(history)


def _spread(history: History) -> float:
    """The scores' deviation over the first updates."""
    return _initial(history, "objective/score_std")


def _change(history: History, name: str) -> tuple[float, float]:
    """A metric's means over its first and last updates, if beyond chance.

    Twice the first one if not, or 0 where the latest update lacks it.  Its
    noise is taken from successive differences, which a trend hardly touches:
    half their mean square is the variance of one update (von Neumann, Ann.
    Math. Stat. 12, 1941).
    """
    if name not in history[-1]:
        return 0.0, 0.0
    values = [row[name] for row in history if _has(row, name)]
    steps = [(b - a) ** 2 for a, b in pairwise(values)] or [0.0]
    error = math.sqrt(_mean(steps) / min(SMOOTHED, len(values)))
    first, now = _initial(history, name), _recent(history, name)
    return first, now if abs(now - first) > SURE * error else first


def _initial(history: History, name: str) -> float:
    """Mean over the first updates that measured it."""
    rows = (row[name] for row in history if _has(row, name))
    return _mean([*islice(rows, SMOOTHED)])


def _recent(history: History, name: str) -> float:
    """Mean over the last updates that measured it."""
    rows = (row[name] for row in reversed(history) if _has(row, name))
    return _mean([*islice(rows, SMOOTHED)][::-1])


def _has(row: Mapping[str, float], name: str) -> bool:
    """Whether an update measured this: what a grader logs may differ from
    batch to batch."""
    return name in row


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
