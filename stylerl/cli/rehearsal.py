"""PPO's first minute, rehearsed on the configured model before time is spent.

A few samples, scored by the linter, and one update that is thrown away: what
must hold of any policy (docs/ppo.md, "Details") is measured, not believed.
"""

from pathlib import Path
from typing import NamedTuple

from stylerl.config import Params
from stylerl.judge import Judge
from stylerl.lm import models
from stylerl.lm.sampling import generate, response_logprobs
from stylerl.ppo import PPOConfig, PPOTrainer
from stylerl.reward.composite import linter_style

PROMPTS = (
    "def add(a, b):",
    "def first(items, default=None):",
    "class Person:",
    'def read(path):\n    """Return the text of a file."""',
)
SAMPLES = 16


class Rehearsal(NamedTuple):
    """What was measured."""

    ratio: float  # largest pi / pi_old before the first step, less 1
    padding: float  # largest change of a log-probability by longer rows
    alike: bool  # a prompt alone is answered as it is in a batch
    ended: float  # share of samples that end
    spread: float  # standard deviation of the linter's rewards


def rehearse(name: str | Path, params: Params) -> Rehearsal:
    """Sample from a model, score it, and take one step on it.

    Raises:
        ModelError: it cannot be loaded, or its context is too short.
    """
    tokenizer = models.load_tokenizer(name)
    model = models.load_causal_lm(name, tokenizer=tokenizer)
    trainer = PPOTrainer(
        _one_update(params.ppo),
        policy=model,
        tokenizer=tokenizer,
        reward=linter_style(Judge(params.judge)),
        prompts=PROMPTS,
        seed=params.seed,
    )
    # The same responses are scored one by one and as they were in the batch.
    batch = trainer.rollout()
    rows = list(zip(batch.input_ids, batch.prompt_lengths, strict=True))
    alone = response_logprobs(
        model,
        tokenizer,
        [ids[:n] for ids, n in rows],
        [ids[n:] for ids, n in rows],
        temperature=params.ppo.temperature,
        pass_tokens=1,
    )
    together = [
        row[:n]
        for row, n in zip(batch.logprobs, batch.response_lengths, strict=True)
    ]
    return Rehearsal(
        padding=max(
            float((a - b).abs().max())
            for a, b in zip(alone, together, strict=True)
        ),
        alike=_same_alone(trainer),
        ended=sum(batch.finished) / len(batch.finished),
        spread=float(batch.scores.std(correction=0)),
        ratio=trainer.update(batch)["policy/ratio_max"] - 1,
    )


def _one_update(ppo: PPOConfig) -> PPOConfig:
    """The settings of sampling; one step, in fp32, on all weights."""
    return PPOConfig(
        **ppo.sampling,
        updates=1,
        batch_size=SAMPLES,
        num_minibatches=1,
        update_epochs=1,
        precision="fp32",
    )


def _same_alone(trainer: PPOTrainer) -> bool:
    """Whether the shortest prompt, most padded, is sampled as if alone."""
    at = min(range(len(PROMPTS)), key=lambda i: len(PROMPTS[i]))

    def sample(rows: list[int]) -> list[list[int]]:
        return generate(
            trainer.policy.model,
            trainer.tokenizer,
            [PROMPTS[row] for row in rows],
            max_new_tokens=trainer.config.max_new_tokens,
            temperature=trainer.config.temperature,
            rows=rows,
        ).ids

    return sample([*range(len(PROMPTS))])[at] == sample([at])[0]
