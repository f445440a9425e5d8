"""The reward of the `ppo` stage: named and weighted parts of a sum.

A style reward alone is gamed (docs/ppo-reward.md): the cheapest
clean body is an empty one.  So `ppo.reward` weighs several parts:
    linter, classifier, pairwise, a folder
                 style, 0 to 1, by the linter, a reward model of the stage
                 `reward`, or one saved elsewhere
    mean of A and B, worst of A and B
                 style by several of these
    substance    0 to 1: how much the body says against what the reference
                 writes for the same prompt
    repetition   -1 to 0: the share of repeated lines beyond what is usual,
                 or -1 for a prompt that is copied
    unparsable   -1 for text that does not parse
    module:function
                 whatever a function of the user's own gives, see functions.py
Style counts in full only where substance is whole (substance.py), and style
and substance are 0 for text that does not parse; so with the default weights
nothing is worth less than that.  The trainer subtracts the penalty for a
completion that was cut at the token limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess, weight_of
from stylerl.judge.verdict import style_score
from stylerl.lm.sampling import generate
from stylerl.reward import functions, gaming, substance
from stylerl.reward.functions import Named, RewardFunction
from stylerl.reward.scorers import CLASSIFIES, Scorer, score_texts

JOBS = 2  # processes that judge a batch, of each rank
USUAL_REPETITION = 0.25  # of lines: `else:`, `try:`, `return None`

COMBINE: dict[str, Callable[..., Any]] = {"mean": np.mean, "worst": np.min}

Style = Callable[[list[str], list[str]], Sequence[float]]


class Episodes(NamedTuple):
    """One batch, and what the completions say."""

    prompts: list[str]
    completions: list[str]
    found: list[substance.Substance]


Part = Callable[[Episodes], Named]


@dataclass(frozen=True)
class Composite:
    """The weighted parts, as the trainer calls them."""

    parts: Sequence[tuple[float, Part]]
    known: substance.Known = substance.anything

    def __call__(
        self, prompts: list[str], completions: list[str]
    ) -> dict[str, list[float]]:
        """Every part times its weight, one number an episode each."""
        found = [
            substance.measure(prompt, completion, self.known(prompt))
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        episodes = Episodes(prompts, completions, found)
        return {
            name: [weight * value for value in values]
            for weight, part in self.parts
            for name, values in part(episodes).items()
        }


def compose(
    weights: Mapping[str, float],
    model: Callable[[str], Style],
    expected: Mapping[str, float],
    known: substance.Known = substance.anything,
) -> Composite:
    """The reward that `ppo.reward` describes.

    A lone style part is called `style`, several `style/NAME`; every other
    part bears its name.

    Args:
        weights: by the names of the module's docstring.
        model: what scores style, by name: the linter or a reward model.
        expected: the size asked for, by prompt; one pair of any other.
        known: gives the names of the module around a prompt.

    Raises:
        ConfigError: a `module:function` cannot be imported.
    """
    styles = [name for name in weights if _is_style(name)]

    def part(name: str) -> Part:
        if name == "substance":
            return partial(_substance, expected)
        if name in SIGNED:
            return SIGNED[name]
        if ":" in name:
            return partial(_own, name, functions.load(name))
        label = "style" if len(styles) == 1 else f"style/{name}"
        return partial(_style_if_whole, label, _style(name, model), expected)

    return Composite(
        [(weight, part(name)) for name, weight in weights.items()], known
    )


def _is_style(name: str) -> bool:
    return name not in {"substance", *SIGNED} and ":" not in name


def _style(name: str, model: Callable[[str], Style]) -> Style:
    """One model, or the mean or the worst case of several.

    Ensembles: Coste et al., arXiv 2310.02743, section 3.
    """
    kind, several, names = name.partition(" of ")
    if not several:
        return model(name)
    members = [model(member) for member in names.split(" and ")]

    def style(prompts: list[str], completions: list[str]) -> list[float]:
        scores = [member(prompts, completions) for member in members]
        combined: list[float] = COMBINE[kind](scores, axis=0).tolist()
        return combined

    return style


def _style_if_whole(
    name: str, style: Style, expected: Mapping[str, float], episodes: Episodes
) -> Named:
    """Style where substance is whole; 0 for text that does not parse.

    The second gated on the first: P-GRPO, arXiv 2508.05170.
    """
    scores = style(episodes.prompts, episodes.completions)
    rows = zip(episodes.prompts, scores, episodes.found, strict=True)
    return {
        name: [
            float(score) * substance.wholeness(each.size, expected.get(p, 1.0))
            for p, score, each in rows
        ]
    }


def _substance(expected: Mapping[str, float], episodes: Episodes) -> Named:
    pairs = zip(episodes.prompts, episodes.found, strict=True)
    return {
        "substance": [
            substance.share_of_expected(each.size, expected.get(prompt, 1.0))
            for prompt, each in pairs
        ]
    }


def _repetition(episodes: Episodes) -> Named:
    return {
        "repetition": [
            -repetition(prompt, completion) if each.parsed else 0.0
            for prompt, completion, each in zip(*episodes, strict=True)
        ]
    }


def _unparsable(episodes: Episodes) -> Named:
    return {"unparsable": [float(e.parsed) - 1 for e in episodes.found]}


SIGNED: dict[str, Part] = {
    "repetition": _repetition,
    "unparsable": _unparsable,
}


def _own(name: str, function: RewardFunction, episodes: Episodes) -> Named:
    """A function of the user's own; its named numbers become `NAME/KEY`."""
    given = function(list(episodes.prompts), list(episodes.completions))
    found = functions.columns(given, len(episodes.prompts), name)
    if isinstance(given, Mapping):
        return {f"{name}/{key}": values for key, values in found.items()}
    return found


def repetition(prompt: str, completion: str) -> float:
    """0 to 1: repeated lines beyond the usual share, 1 for a copied prompt."""
    if gaming.copies_prompt(prompt, completion):
        return 1.0
    excess = gaming.repeated_line_share(completion) - USUAL_REPETITION
    return max(0.0, excess) / (1 - USUAL_REPETITION)


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
        found = [
            substance.measure(*pair, self.judge.around(pair[0]))
            for pair in pairs
        ]
        numbers: dict[str, list[float]] = {}
        if self.learned:
            predicted = [*self.learned(prompts, completions)]
            numbers["predicted_compliance"] = predicted
        return numbers | {
            "score": [v.score for v in verdicts],
            "compliance": [
                float(v.outcome is Outcome.COMPLIANT) for v in verdicts
            ],
            "parse_rate": [float(each.parsed) for each in found],
            "statements": [float(each.statements) for each in found],
            "trivial": [float(each.trivial) for each in found],
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


def expected_sizes(
    reference: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    config: PPOConfig,
    seed: int,
    *,
    bf16: bool = False,
    known: substance.Known = substance.anything,
    encode: Callable[[str], list[int]] | None = None,
) -> dict[str, float]:
    """The size asked for with each prompt, from one sample each.

    It is what the reference writes, times `substance_target`.  Fewer prompts
    than a batch are sampled as often as a batch holds them.
    """
    times = max(1, config.batch_size // len(prompts))
    repeated = [prompt for prompt in prompts for _ in range(times)]
    sampled = generate(
        reference,
        tokenizer,
        repeated,
        **config.sampling,
        seed=seed,
        batch_size=config.batch_size,
        bf16=bf16,
        encode=encode,
        desc="ppo: sample the reference",
    )
    samples: dict[str, list[str]] = {prompt: [] for prompt in prompts}
    for prompt, text in zip(repeated, sampled.judged, strict=True):
        samples[prompt].append(text)
    return substance.expected_sizes(
        samples, known, target=config.substance_target
    )
