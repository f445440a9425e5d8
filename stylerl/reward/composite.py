"""The reward of the `ppo` stage: style and substance, by named part.

A style reward alone is gamed (docs/ppo.md, "Ways to game it"): the cheapest
clean body is an empty one.  So an episode is worth the sum of
    style        0 to 1, of the classifier, the pairwise model or the linter;
                 0 for a body in which nothing does anything
    substance    0 to its weight: the size of the body's syntax tree against
                 that of what the reference writes for the same prompt
    repetition   -1 to 0: the share of repeated lines beyond what is usual,
                 or -1 for a prompt that is copied
    unparsable   -1 for text that does not parse, which earns nothing else
so that nothing is worth less than text that does not parse.  What was cut at
the token limit is charged by the trainer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess
from stylerl.reward import guards, substance
from stylerl.reward.scorers import Scorer, score_texts
from stylerl.sampling import generate

USUAL_REPETITION = 0.25  # of lines: `else:`, `try:`, `return None`

Style = Callable[[list[str], list[str]], Sequence[float]]


@dataclass(frozen=True)
class StyleReward:
    """The composite, as the trainer calls it."""

    style: Style
    expected: Mapping[str, float]  # size by prompt, see substance.py
    weight: float  # of the substance part

    def __call__(
        self, prompts: list[str], completions: list[str]
    ) -> dict[str, list[float]]:
        """The four parts, one number an episode each."""
        styles = self.style(prompts, completions)
        rows = [
            self._parts(prompt, completion, float(style))
            for prompt, completion, style in zip(
                prompts, completions, styles, strict=True
            )
        ]
        names = ("style", "substance", "repetition", "unparsable")
        columns = zip(*rows, strict=True)
        return {n: list(c) for n, c in zip(names, columns, strict=True)}

    def _parts(
        self, prompt: str, completion: str, style: float
    ) -> tuple[float, float, float, float]:
        found = substance.measure(prompt, completion)
        if not found.parsed:
            return 0.0, 0.0, 0.0, -1.0
        share = substance.share_of_expected(found.size, self.expected[prompt])
        return (
            0.0 if found.trivial else style,
            self.weight * share,
            -repetition(prompt, completion),
            0.0,
        )


def repetition(prompt: str, completion: str) -> float:
    """0 to 1: repeated lines beyond the usual share, 1 for a copied prompt."""
    if guards.copies_prompt(prompt, completion):
        return 1.0
    excess = guards.repeated_line_share(completion) - USUAL_REPETITION
    return max(0.0, excess) / (1 - USUAL_REPETITION)


def linter_style(judge: Judge) -> Style:
    """The linter as a reward: half for the score, half for compliance."""

    def style(prompts: list[str], completions: list[str]) -> list[float]:
        finished = [True] * len(prompts)
        return [
            0.5 * each.score + 0.5 * (each.outcome is Outcome.COMPLIANT)
            for each in assess_all(judge, prompts, completions, finished)
        ]

    return style


def learned_style(scorer: Scorer, kind: str) -> Style:
    """A reward model: P(compliant), or the pairwise score made 0 to 1.

    The pairwise score is a log-odds against a typical reference text, whose
    score is 0; its sigmoid is P(better than that).
    """

    def style(prompts: list[str], completions: list[str]) -> list[float]:
        texts = [p + c for p, c in zip(prompts, completions, strict=True)]
        scores = score_texts(*scorer, texts)
        if kind == "pairwise":
            scores = 1 / (1 + np.exp(-scores))
        return [float(score) for score in scores]

    return style


@dataclass(frozen=True)
class Watch:
    """The linter's verdict, and the rate of each way to game a reward."""

    judge: Judge

    def __call__(
        self,
        prompts: list[str],
        completions: list[str],
        finished: list[bool],
    ) -> dict[str, list[float]]:
        """Named numbers, one an episode each; docs/ppo.md defines them."""
        verdicts = assess_all(self.judge, prompts, completions, finished)
        pairs = list(zip(prompts, completions, strict=True))
        found = [substance.measure(*pair) for pair in pairs]
        return {
            "score": [v.score for v in verdicts],
            "compliance": [
                float(v.outcome is Outcome.COMPLIANT) for v in verdicts
            ],
            "parse_rate": [float(each.parsed) for each in found],
            "statements": [float(each.statements) for each in found],
            "trivial": [float(each.trivial) for each in found],
            "repeated_lines": [
                guards.repeated_line_share(text) for text in completions
            ],
            "comment_lines": [
                guards.comment_line_share(text) for text in completions
            ],
            "copied_prompt": [
                float(guards.copies_prompt(*pair)) for pair in pairs
            ],
            "noqa": [float(guards.mentions_noqa(t)) for t in completions],
        }


def assess_all(
    judge: Judge,
    prompts: list[str],
    completions: list[str],
    finished: list[bool],
) -> list[Assessment]:
    """Each completion's outcome, judged with its prompt and without it."""
    texts = [p + c for p, c in zip(prompts, completions, strict=True)]
    verdicts = judge.verdicts(texts, jobs=1, desc="ppo: judge")
    return [
        assess(prompt, done, verdict)
        for prompt, done, verdict in zip(
            prompts, finished, verdicts, strict=True
        )
    ]


def expected_sizes(
    reference: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    config: PPOConfig,
    seed: int,
    *,
    bf16: bool = False,
) -> dict[str, float]:
    """What the reference writes for each prompt, from one sample each.

    Fewer prompts than a batch are sampled as often as a batch holds them.
    """
    times = max(1, config.batch_size // len(prompts))
    repeated = [prompt for prompt in prompts for _ in range(times)]
    sampled = generate(
        reference,
        tokenizer,
        repeated,
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        seed=seed,
        batch_size=config.batch_size,
        bf16=bf16,
        desc="ppo: sample the reference",
    )
    samples: dict[str, list[str]] = {prompt: [] for prompt in prompts}
    for prompt, text in zip(repeated, sampled.judged, strict=True):
        samples[prompt].append(text)
    return substance.expected_sizes(samples)
