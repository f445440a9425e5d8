"""The reward of the `ppo` stage: named and weighted parts of a sum.

`ppo.reward` weighs:
    linter, classifier, pairwise
                 style, 0 to 1, by the linter or a reward model of the stage
                 `reward`
    arguments    0 to 1, the share of its function's arguments that a body
                 reads: what no rule of PEP 8 asks for, and what a policy
                 that is paid for PEP 8 alone unlearns (decision 33); 0 where
                 some of its code does nothing
    module:function
                 whatever a function of the user's own gives, see functions.py
Style is 0 for text that does not parse.  The trainer subtracts the penalty for
a completion that was cut at the token limit.  That the cheapest clean body is
a short one is no matter of the reward: advantages answer for length
(ppo/length.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stylerl.judge import Judge
from stylerl.reward import functions
from stylerl.reward.functions import Feedback, RewardFunction
from stylerl.reward.grade import Grade, grade, monitored, style, token_rewards
from stylerl.reward.scorers import CLASSIFIES, Scorer, score_texts

LINTER = "linter"
ARGUMENTS = "arguments"
Learned = Callable[[Sequence[Grade]], list[float]]  # a reward model's style


@dataclass(frozen=True)
class StyleGrader:
    """Grades completions and turns the grades into rewards."""

    judge: Judge
    weights: Mapping[str, float]  # of the parts, by name
    learned: Mapping[str, Learned]  # the parts that are reward models
    functions: Mapping[str, RewardFunction]  # the parts that are functions

    whole_lines = True  # a line that was cut is no style

    def __call__(
        self, prompts: list[str], completions: list[str], finished: list[bool]
    ) -> Feedback:
        """Judge and grade a batch, and say what it is worth."""
        return self.feedback(grade(self.judge, prompts, completions, finished))

    def feedback(self, grades: Sequence[Grade]) -> Feedback:
        """What a batch is worth, part by part, and what is monitored.

        Tokens are charged what the linter's part lost by them.
        """
        tokens = None
        if LINTER in self.weights:
            factor = self.weights[LINTER]
            tokens = [token_rewards(graded, factor) for graded in grades]
        return Feedback(self.parts(grades), tokens, monitored(grades))

    def parts(self, grades: Sequence[Grade]) -> dict[str, list[float]]:
        """Each part times its weight, one number a completion.

        A lone style part is called `style`, several `style/NAME`; every
        other part bears its name.
        """
        styles = self.weights.keys() - self.functions.keys() - {ARGUMENTS}
        columns = {}
        for name, weight in self.weights.items():
            label = name
            if name == ARGUMENTS:
                values = [graded.arguments for graded in grades]
            elif name in self.functions:
                values = self._user_values(name, grades)
            else:
                label = "style" if len(styles) == 1 else f"style/{name}"
                values = self._style(name, grades)
            columns[label] = [weight * value for value in values]
        return columns

    def _user_values(self, name: str, grades: Sequence[Grade]) -> list[float]:
        """What a function of the user's own gives."""
        given = self.functions[name](
            [graded.prompt for graded in grades],
            [graded.completion for graded in grades],
        )
        return functions.column(name, given, len(grades))

    def _style(self, name: str, grades: Sequence[Grade]) -> list[float]:
        """A style part; 0 for what does not parse."""
        if name == LINTER:
            return [style(graded) for graded in grades]
        scores = zip(self.learned[name](grades), grades, strict=True)
        return [score if graded.parsed else 0.0 for score, graded in scores]


def style_grader(
    judge: Judge,
    weights: Mapping[str, float],
    models: Path,
    load: Callable[[Path], Learned],
) -> StyleGrader:
    """The grader that `ppo.reward` describes.

    Args:
        judge: with the places of the prompts.
        weights: by the names of the module's docstring.
        models: the folder of the reward models.
        load: makes style of a reward model's folder.

    Raises:
        ConfigError: a `module:function` cannot be imported.
    """
    loaded = {name: functions.load(name) for name in weights if ":" in name}
    learned = {
        name: load(models / name)
        for name in weights
        if name not in (LINTER, ARGUMENTS, *loaded)
    }
    return StyleGrader(judge, weights, learned, loaded)


def learned_style(scorer: Scorer) -> Learned:
    """A reward model: P(compliant), or the pairwise score made 0 to 1.

    The pairwise score is a log-odds against a typical reference text, whose
    score is 0; its sigmoid is P(better than that).
    """
    classifies = scorer.model.config.problem_type == CLASSIFIES

    def score(grades: Sequence[Grade]) -> list[float]:
        texts = [graded.prompt + graded.completion for graded in grades]
        scores = score_texts(*scorer, texts)
        if not classifies:
            scores = 1 / (1 + np.exp(-scores))
        return [float(score) for score in scores]

    return score
