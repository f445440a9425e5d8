"""The reward of the `ppo` stage: named and weighted parts of a sum.

`ppo.reward` weighs:
    linter, classifier, pairwise, a folder
                 style, 0 to 1, by the linter, a reward model of the stage
                 `reward`, or one saved elsewhere
    module:function
                 whatever a function of the user's own gives, see functions.py
Style is 0 for text that does not parse.  The trainer subtracts the penalty for
a completion that was cut at the token limit.  That the cheapest clean body is
a short one is no matter of the reward: a constraint keeps the length
(ppo/constraints.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess, weight_of
from stylerl.judge.verdict import style_score
from stylerl.reward import functions, gaming
from stylerl.reward.functions import Named, RewardFunction
from stylerl.reward.scorers import CLASSIFIES, Scorer, score_texts

JOBS = 2  # processes that judge a batch, of each rank

Style = Callable[[list[str], list[str]], Sequence[float]]


Part = Callable[[list[str], list[str]], Named]


@dataclass(frozen=True)
class Composite:
    """The weighted parts, as the trainer calls them."""

    parts: Sequence[tuple[float, Part]]

    def __call__(
        self, prompts: list[str], completions: list[str]
    ) -> dict[str, list[float]]:
        """Every part times its weight, one number an episode each."""
        return {
            name: [weight * value for value in values]
            for weight, part in self.parts
            for name, values in part(prompts, completions).items()
        }


def compose(
    weights: Mapping[str, float], model: Callable[[str], Style]
) -> Composite:
    """The reward that `ppo.reward` describes.

    A lone style part is called `style`, several `style/NAME`; every other
    part bears its name.

    Args:
        weights: by the names of the module's docstring.
        model: what scores style, by name: the linter or a reward model.

    Raises:
        ConfigError: a `module:function` cannot be imported.
    """
    styles = [name for name in weights if ":" not in name]

    def part(name: str) -> Part:
        if ":" in name:
            return partial(_own, name, functions.load(name))
        label = "style" if len(styles) == 1 else f"style/{name}"
        return partial(_style_if_parsed, label, model(name))

    return Composite(
        [(weight, part(name)) for name, weight in weights.items()]
    )


def _style_if_parsed(
    name: str, style: Style, prompts: list[str], completions: list[str]
) -> Named:
    """Style, but 0 for text that does not parse."""
    rows = zip(prompts, completions, style(prompts, completions), strict=True)
    return {
        name: [
            float(score) if gaming.body_of(prompt, text) is not None else 0.0
            for prompt, text, score in rows
        ]
    }


def _own(
    name: str,
    function: RewardFunction,
    prompts: list[str],
    completions: list[str],
) -> Named:
    """A function of the user's own; its named numbers become `NAME/KEY`."""
    given = function(list(prompts), list(completions))
    found = functions.columns(given, len(prompts), name)
    if isinstance(given, Mapping):
        return {f"{name}/{key}": values for key, values in found.items()}
    return found


def named_style(
    name: str, judge: Judge, models: Path, learned: Callable[[Path], Style]
) -> Style:
    """What scores style: the linter, or a reward model by name or folder.

    `models` is the folder of those with a name; `learned` loads one.
    """
    if name == "linter":
        return linter_style(judge)
    return learned(Path(name) if "/" in name else models / name)


def linter_style(judge: Judge) -> Style:
    """The linter as a reward."""

    def style(prompts: list[str], completions: list[str]) -> list[float]:
        assessed = assess_all(judge, prompts, completions)
        return [style_of(each, judge.config.weights) for each in assessed]

    return style


def style_of(found: Assessment, weights: Mapping[str, float]) -> float:
    """0 to 1: half for the score, half for compliance.

    The score of as many violations as they weigh; compliance is none at all.
    """
    compliant = found.outcome is Outcome.COMPLIANT
    return 0.5 * weighed_score(found, weights) + 0.5 * compliant


def weighed_score(found: Assessment, weights: Mapping[str, float]) -> float:
    """The style score of a completion by the weights of `judge.weights`."""
    if not found.parsed:
        return 0.0
    return style_score(
        sum(weight_of(each.code, weights) for each in found.violations)
    )


def learned_style(scorer: Scorer) -> Style:
    """A reward model: P(compliant), or the pairwise score made 0 to 1.

    The pairwise score is a log-odds against a typical reference text, whose
    score is 0; its sigmoid is P(better than that).
    """
    classifies = scorer.model.config.problem_type == CLASSIFIES

    def style(prompts: list[str], completions: list[str]) -> list[float]:
        texts = [p + c for p, c in zip(prompts, completions, strict=True)]
        scores = score_texts(*scorer, texts)
        if not classifies:
            scores = 1 / (1 + np.exp(-scores))
        return [float(score) for score in scores]

    return style


@dataclass(frozen=True)
class Monitor:
    """The linter's verdict, and the rate of each way to game a reward.

    `learned` is a reward model; what it predicts is logged beside the
    linter's verdict, as `predicted_compliance`.
    """

    judge: Judge
    learned: Style | None = None

    def __call__(
        self,
        prompts: list[str],
        completions: list[str],
        finished: list[bool],
    ) -> dict[str, list[float]]:
        """Named numbers, one an episode each; docs/ppo-log.md defines them."""
        verdicts = assess_all(self.judge, prompts, completions, finished)
        pairs = list(zip(prompts, completions, strict=True))
        bodies = [gaming.body_of(*pair) for pair in pairs]
        numbers: dict[str, list[float]] = {}
        if self.learned:
            predicted = [*self.learned(prompts, completions)]
            numbers["predicted_compliance"] = predicted
        return numbers | {
            "score": [v.score for v in verdicts],
            "compliance": [
                float(v.outcome is Outcome.COMPLIANT) for v in verdicts
            ],
            "parse_rate": [float(body is not None) for body in bodies],
            "statements": [
                float(gaming.count_statements(body or [])) for body in bodies
            ],
            "trivial": [
                float(body is not None and gaming.is_trivial(body))
                for body in bodies
            ],
            "repeated_lines": [
                gaming.repeated_line_share(text) for text in completions
            ],
            "comment_lines": [
                gaming.comment_line_share(text) for text in completions
            ],
            "copied_prompt": [
                float(gaming.copies_prompt(*pair)) for pair in pairs
            ],
            "noqa": [float(gaming.mentions_noqa(t)) for t in completions],
        }


def assess_all(
    judge: Judge,
    prompts: list[str],
    completions: list[str],
    finished: Sequence[bool] | None = None,
) -> list[Assessment]:
    """Each completion's outcome, judged where the judge knows it to stand.

    All count as finished where it is not said which are.
    """
    verdicts = judge.completions(prompts, completions, JOBS, "ppo: judge")
    done = [True] * len(prompts) if finished is None else finished
    judged = zip(prompts, done, verdicts, strict=True)
    return [assess(*each) for each in judged]
