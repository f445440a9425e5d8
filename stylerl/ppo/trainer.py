"""The PPO trainer: samples, scores and learns, again and again.

    trainer = PPOTrainer(PPOConfig(), policy=model, tokenizer=tokenizer,
                         grader=by_reward(my_function),
                         prompts=["def add(a, b):\\n"])
    for step in trainer:
        print(step.metrics["objective/score"])

This module is what surrounds an update: checkpoints and alarms.
What an update learns from is made in sampler.py, the update itself is
learner.py, its mathematics formulas.py; docs/ppo.md describes them all, and
docs/ppo-log.md every metric.

Where this departs from the papers, and from TRL's PPOTrainer
    1. There is no value: the baseline is the mean of an episode's
       siblings, completions of the same prompt (RLOO).
    2. The score is the reward of the last action, which is eos if the
       response ended with it; TRL puts it one place later, on a pad.
    3. Losses are means over all response tokens of an optimiser step, and
       `num_minibatches` is the number of optimiser steps in an epoch.
    4. Advantages are divided by their deviation, if that is above 1e-4,
       and keep their mean: what a reward's scale changes is its weight
       beside the penalties alone.
    5. Learning rate, prompts and random draws are functions of (seed,
       update), so that a killed run resumes exactly where it was.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from stylerl import draws
from stylerl.config import PPOConfig
from stylerl.errors import ConfigError
from stylerl.lm import checkpoint
from stylerl.lm.encoding import encode_prompt
from stylerl.lm.memory import give_back
from stylerl.lm.models import cast_weights
from stylerl.lm.saving import save_model
from stylerl.ppo import health, identity, preconditions
from stylerl.ppo.compute import Compute
from stylerl.ppo.learner import Learner
from stylerl.ppo.meters import Stopwatch
from stylerl.ppo.policy import Policy
from stylerl.ppo.ranks import Ranks
from stylerl.ppo.rollouts import Rollouts
from stylerl.ppo.sampler import Sampler
from stylerl.reward import functions
from stylerl.reward.functions import Grader

FORMAT = 11  # of a checkpoint's state; another one is another version's
# What the progress bar shows.
HEADLINE = ("objective/score", "objective/kl", "judge/compliance")
REFERENCE_BATCHES = 2  # that say what lengths are to be kept


class Step(NamedTuple):
    """One update, as iteration yields it."""

    update: int  # from 1
    metrics: dict[str, float]  # see docs/ppo-log.md
    rollouts: Rollouts
    alarms: list[health.Alarm]
    seconds: dict[str, float]  # by phase

    @property
    def tokens_per_second(self) -> float:
        """Response tokens sampled and learnt from, on all ranks."""
        sampled = int(self.rollouts.response_lengths.sum())
        return sampled / sum(self.seconds.values())


class PPOTrainer:
    """Iterate over it, or call `rollout` and `update` yourself.

    Under `accelerate launch` each rank samples, scores and learns its
    share, and all end with the same weights.
    """

    def __init__(
        self,
        config: PPOConfig,
        *,
        policy: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        grader: Grader,
        prompts: Iterable[Any],
        reference: PreTrainedModel | None = None,
        seed: int = 0,
        checkpoints: str | Path | None = None,
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        """Train `policy` in place, on a GPU if there is one.

        Args:
            config: see stylerl/config/sections.py.
            policy: a causal language model; trained weights become fp32,
                frozen ones bf16 where passes are.
            tokenizer: its tokenizer; pad is not eos.
            grader: `(prompts, completions, finished)` to a `Feedback`: one
                number for each episode, or named parts that are summed, and
                what of them belongs to single tokens; `by_reward` makes one
                of a function of prompts and completions.
            prompts: texts, or rows or a data set with a `prompt` column.
            reference: pi_ref; by default a frozen copy of the policy, or
                with LoRA the policy with its adapters off.
            seed: of every random draw.
            checkpoints: a folder to resume from; None keeps none.
            encode: `(prompt)` to its token ids, with what comes before it;
                by default those of the prompt alone.

        Raises:
            ConfigError: settings, tokenizer and prompts do not fit together.
        """
        self.ranks = Ranks()
        functions.check(grader, "grader", "prompts", "completions", "finished")
        self.config = config
        self.tokenizer = tokenizer
        self.seed = seed
        self.checkpoints = None if checkpoints is None else Path(checkpoints)
        self.prompts = preconditions.texts(prompts)
        preconditions.check(
            config, tokenizer, self.prompts, self.ranks.world_size
        )
        self.compute = Compute.of(config, self.ranks.device)
        self._take_models(policy, reference)
        self._identity = {}
        if self.checkpoints:
            self._identity = identity.identify(
                config, seed, self.prompts, [self.policy, reference]
            )
        self.sampler = Sampler(
            config,
            self.policy,
            self.reference,
            tokenizer,
            grader,
            encode or partial(encode_prompt, tokenizer),
            self.ranks,
            self.compute,
        )
        self.learner = Learner(
            config, self.policy, self.compute, self.ranks, seed
        )
        self.history: list[dict[str, float]] = []  # metrics by update

    def _take_models(
        self, policy: PreTrainedModel, reference: PreTrainedModel | None
    ) -> None:
        """Set the policy, with what is trained in fp32, and pi_ref.

        With LoRA and no reference given, pi_ref is the policy with its
        adapters off, and no copy is held.

        Raises:
            ConfigError: they do not fit the settings or the tokenizer.
        """
        config = self.config
        preconditions.check_model(policy, self.tokenizer)
        if reference is not None:
            preconditions.check_model(reference, self.tokenizer)
        preconditions.check_reference(policy, reference)
        # Adam's steps are smaller than bf16 resolves: what is trained is
        # fp32.
        self.policy = Policy(policy.float()).eval().to(self.ranks.device)
        # What is not trained has the type of the passes.
        frozen = torch.float32
        if self.compute.bf16 and config.lora_rank:
            frozen = torch.bfloat16
        if reference is None and not config.lora_rank:
            reference = copy.deepcopy(self.policy.model)
        self.reference = reference
        if reference is not None:
            fixed: Any = reference.eval().requires_grad_(False)
            cast_weights(fixed.to(self.ranks.device), frozen)
        # What is trained: all weights, or adapters beside frozen ones.
        if config.lora_rank:
            cast_weights(self.policy.model, frozen)
            self.policy.add_adapters(
                config.lora_rank, draws.seed_of(self.seed, "adapters")
            )
        preconditions.check_trained(self.policy)

    def __len__(self) -> int:
        """The number of updates."""
        return self.config.updates

    @property
    def done(self) -> int:
        """Updates so far."""
        return self.learner.done

    def __iter__(self) -> Iterator[Step]:
        """Run the remaining updates, from the last checkpoint on.

        Raises:
            TrainingError: a gradient is not finite.
        """
        self.resume()
        self.measure_reference()
        with tqdm(
            total=len(self),
            initial=self.done,
            desc="ppo",
            unit="update",
            disable=not self.ranks.is_main,
        ) as bar:
            while self.done < len(self):
                step = self._step()
                bar.set_postfix(
                    {
                        name.partition("/")[2]: f"{step.metrics[name]:.2f}"
                        for name in HEADLINE
                        if name in step.metrics
                    }
                )
                bar.update()
                yield step

    def rollout(self, prompts: Sequence[str] | None = None) -> Rollouts:
        """Sample completions of each prompt and score them.

        Each prompt gets `ppo.group_size` of them.  Without `prompts`, it
        takes the next update's.  Python's, numpy's and torch's global
        generators are seeded.
        """
        size = self.config.group_size
        drawn = self.prompts_of(self.done, self.config.batch_size // size)
        if prompts is not None:
            drawn = preconditions.texts(prompts)
        texts = [text for text in drawn for _ in range(size)]
        # A grader may draw from the global generators: a resumed run must
        # draw the same.
        set_seed(draws.seed_of(self.seed, self.done, "grader") % 2**32)
        return self.sampler.episodes(
            texts, draws.seed_of(self.seed, self.done, "sample")
        )

    def measure_reference(self) -> None:
        """Measure the lengths that are to be kept, before any update.

        The policy as it is gives one answer to each prompt of two batches:
        many answers to a few prompts say little of the others.  Without this
        call the first update takes its own batch.
        """
        known = self.learner.log_length is not None
        if not self.config.keep_length or known or self.done:
            return
        batches = [
            self.sampler.log_lengths(
                self.prompts_of(batch, self.config.batch_size),
                draws.seed_of(self.seed, batch, "reference"),
            )
            for batch in range(REFERENCE_BATCHES)
        ]
        means = [float(logs.mean()) for logs in batches if len(logs)]
        if means:
            self.learner.log_length = sum(means) / len(means)

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Learn from rollouts; the metrics, as docs/ppo-log.md defines them.

        Raises:
            TrainingError: a gradient is not finite.
        """
        return self.learner.update(batch)

    def save(self) -> None:
        """Write a checkpoint from which `resume` continues exactly."""
        assert self.checkpoints is not None
        if self.ranks.is_main:
            tensors = self.learner.tensors()
            state: dict[str, Any] = {
                "format": FORMAT,
                "identity": self._identity,
                "learner": self.learner.state(),
                "history": self.history,
            }
            checkpoint.save(
                self.checkpoints,
                checkpoint.Checkpoint(self.done, tensors, state),
            )
        self.ranks.wait()

    def save_policy(self, folder: Path) -> None:
        """Write the policy as a stock model folder; every rank calls this."""
        if self.ranks.is_main:
            save_model(self.policy.model, self.tokenizer, folder)
        self.ranks.wait()

    def resume(self) -> None:
        """Continue from the newest checkpoint, if there is one.

        Raises:
            ConfigError: it was made with other settings, prompts or
                weights, which are named (but for `identity.FREE`).
            DataError: it is damaged.
        """
        if self.checkpoints is None:
            return
        saved = checkpoint.latest(self.checkpoints)
        if saved is None:
            return
        rule = f"checkpoints in {self.checkpoints} must be of this run"
        if saved.state.get("format") != FORMAT:
            raise ConfigError(
                f"{rule}; it was made by another version of stylerl: remove "
                "the folder or name another one"
            )
        before, now = saved.state["identity"], self._identity
        names = sorted({*before, *now})
        if changed := [n for n in names if before.get(n) != now.get(n)]:
            raise ConfigError(
                f"{rule}; changed since: {', '.join(changed)}: change it "
                "back, remove the folder or name another one"
            )
        self.learner.restore(saved.tensors, saved.state["learner"])
        self.history = saved.state["history"]

    def _step(self) -> Step:
        """One update, with its alarms and its checkpoint."""
        batch, phase = self.rollout(), Stopwatch()
        give_back()
        with phase("update"):
            metrics = self.update(batch)
        self.history.append(metrics)
        alarms = health.alarms(self.history)
        # A checkpoint every so many updates, and after the last.
        every, last = self.config.checkpoint_every, self.done == len(self)
        if self.checkpoints and every and (self.done % every == 0 or last):
            self.save()
        seconds = {**batch.seconds, **phase.seconds}
        return Step(self.done, metrics, batch, alarms, seconds)

    def prompts_of(self, update: int, count: int) -> list[str]:
        """The prompts of an update, counted from 0, of `count` each."""
        places = draws.positions(
            update * count, count, len(self.prompts), self.seed
        )
        return [self.prompts[place] for place in places]
