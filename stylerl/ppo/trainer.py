"""The PPO trainer: samples, scores and learns, again and again.

    trainer = PPOTrainer(PPOConfig(), policy=model, tokenizer=tokenizer,
                         reward=my_function, prompts=["def add(a, b):\\n"])
    for step in trainer:
        print(step.statistics["objective/score"])

Here is what surrounds the update: sampling, scoring, checkpoints, alarms.
The update itself is learner.py, its mathematics formulas.py; docs/ppo.md is
the twin of the three: each statistic and each detail, with its source.

Where this departs from the papers, and from TRL's PPOTrainer
    1. One trunk carries the policy and a value head that starts at zero, and
       no second model is run, unless the policy brings one.
    2. The score stands on the last action, which is eos if the response
       ended with it; TRL puts it one place later, on a pad.
    3. Losses are means over all response tokens of an optimiser step, and
       `minibatches` is the number of optimiser steps an epoch.
    4. Rewards are divided by the running root mean square of the returns:
       on a shared trunk an unscaled value loss drowns the policy's, and a
       huge beta then drives the policy away from pi_ref.
    5. Rate, prompts and draws are functions of (seed, update), so that a
       killed run goes on exactly where it was.
"""

import copy
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl import draws
from stylerl.config import PPOConfig
from stylerl.errors import ConfigError, TrainingError
from stylerl.lm import checkpoint
from stylerl.lm.sampling import Completions, generate
from stylerl.ppo import health, preconditions, rollouts, selection, sharding
from stylerl.ppo.compute import Compute, score
from stylerl.ppo.learner import Learner
from stylerl.ppo.meters import Stopwatch
from stylerl.ppo.policy import PolicyWithValue
from stylerl.ppo.processes import Processes
from stylerl.ppo.rollouts import Observer, Reward, Rollouts
from stylerl.ppo.token_rewards import on_tokens
from stylerl.reward.functions import Charge, Credit

__all__ = ["PPOConfig", "PPOTrainer", "Rollouts", "Step"]

ROLLBACKS = 3  # then training gives up
VALIDATE = "validate"  # a phase that is no part of training


class Step(NamedTuple):
    """One update, as iteration yields it."""

    update: int  # from 1
    statistics: dict[str, float]  # see docs/ppo-log.md
    rollouts: Rollouts
    alarms: list[health.Alarm]
    seconds: dict[str, float]  # by phase

    @property
    def tokens_per_second(self) -> float:
        """Response tokens sampled and learnt from, by all processes.

        The time of a measurement on validation prompts does not count.
        """
        spent = sum(t for name, t in self.seconds.items() if name != VALIDATE)
        return int(self.rollouts.lengths.sum()) / spent


class PPOTrainer:
    """Iterate over it, or call `rollout` and `update` yourself.

    `reward(prompts, completions)` gives one number an episode, or named
    parts that are summed.  `observe(prompts, completions, finished)` gives
    named numbers that are watched and never rewarded.  Unless `ppo.credit`
    is `response`, `credit(prompts, completions)` says what of the reward
    stands on single tokens.  A completion that was cut at the token limit
    comes to all three without its last line.

    Under `accelerate launch` each process samples, scores and learns its
    share, and all end with the same weights.
    """

    def __init__(
        self,
        config: PPOConfig,
        *,
        policy: PreTrainedModel | PolicyWithValue,
        tokenizer: PreTrainedTokenizerBase,
        reward: Reward,
        prompts: Iterable[Any],
        reference: PreTrainedModel | None = None,
        observe: Observer | None = None,
        credit: Credit | None = None,
        validation: Iterable[Any] = (),
        seed: int = 0,
        checkpoints: Path | None = None,
    ) -> None:
        """Take over `policy`, to train it in place, on a GPU if there is one.

        Args:
            config: see stylerl/config/sections.py.
            policy: a causal language model, with a value head or without.
            tokenizer: its tokenizer; pad is not eos.
            reward: scores completions.
            prompts: texts, or rows or a data set with a `prompt` column.
            reference: pi_ref; by default a frozen copy of the policy, or
                with LoRA the policy with its adapters off.
            observe: numbers to watch beside the reward.
            credit: where in a completion the reward was lost or won.
            validation: prompts to measure the policy on as it learns, and
                to choose the best update by; without any nothing is.
            seed: of every draw.
            checkpoints: a folder to resume from; None keeps none.

        Raises:
            ConfigError: settings, tokenizer and prompts do not fit together.
        """
        self.config = config
        self.tokenizer = tokenizer
        self.reward = reward
        self.observe = observe
        self.credit = credit
        self.prompts = _texts(prompts)
        self.validation = _texts(validation)
        self.seed = seed
        self.checkpoints = checkpoints
        self.processes = Processes()
        preconditions.check(
            config,
            tokenizer,
            self.prompts,
            self.validation,
            processes=self.processes.count,
            credit=credit is not None,
            checkpoints=checkpoints is not None,
        )
        if not isinstance(policy, PolicyWithValue):
            policy = PolicyWithValue(policy)
        self.policy = policy.eval().to(self.processes.device)
        if reference is None and not config.lora_rank:
            reference = copy.deepcopy(self.policy.model)
        self.reference = reference
        if reference is not None:
            reference.eval().requires_grad_(False).to(self.policy.device)
        if config.lora_rank:
            self.policy.add_adapters(
                config.lora_rank,
                config.lora_alpha,
                config.lora_targets,
                draws.seed_of(seed, "adapters"),
            )
        if config.gradient_checkpointing:
            self.policy.enable_gradient_checkpointing()
        self._identity = self._identify()
        if self.processes.sharded:
            sharding.shard(self.policy)
        self.compute = Compute.of(config, self.processes.device)
        self.learner = Learner(
            config, self.policy, self.compute, self.processes, seed
        )
        self.history: list[dict[str, float]] = []  # statistics by update
        self.stopped: health.Alarm | None = None
        self.best: selection.Best | None = None

    def __len__(self) -> int:
        """The number of updates."""
        return self.config.updates

    @property
    def done(self) -> int:
        """Updates so far."""
        return self.learner.done

    def __iter__(self) -> Iterator[Step]:
        """Run the updates that are left, from the last checkpoint on.

        With `ppo.keep: best` the policy ends with the best update's weights.

        Raises:
            TrainingError: a gradient is not finite, or a grave alarm came
                again after every rollback.
        """
        self.resume()
        if self.config.on_alarm == "rollback" and self.done == 0:
            self.save()
        with tqdm(
            total=len(self),
            initial=self.done,
            desc="ppo",
            unit="update",
            disable=not self.processes.main,
        ) as bar:
            while self.done < len(self) and self.stopped is None:
                step = self._step()
                bar.set_postfix(_headline(step.statistics))
                bar.update()
                yield step
                self._act_on(step.alarms)
                bar.n = self.done
        if self.best is not None:
            sharding.load(self.policy, self.best.weights)

    def rollout(self, prompts: Sequence[str] | None = None) -> Rollouts:
        """Sample one completion a prompt and score it; nothing is learnt.

        Without `prompts`, those of the next update are taken.
        """
        texts = list(prompts or self._next_prompts())
        return self._episodes(
            texts, draws.seed_of(self.seed, self.done, "sample")
        )

    def validate(self) -> dict[str, float]:
        """Score, compliance and KL of the policy on validation prompts.

        The draws are the same every time.
        """
        seed = draws.seed_of(self.seed, "validation")
        return selection.measure(self._episodes(self.validation, seed))

    def _episodes(self, every: Sequence[str], seed: int) -> Rollouts:
        """One scored completion a prompt, over all processes."""
        rows = self.processes.share(range(len(every)))
        with sharding.whole(self.policy):
            mine = self._share([every[row] for row in rows], rows, seed)
        return rollouts.interleave(self.processes.gather(mine))

    def _share(
        self, texts: list[str], rows: Sequence[int], seed: int
    ) -> Rollouts:
        """The episodes of this process, whose rows of the batch these are."""
        sharded, phase = self.processes.sharded, Stopwatch()
        self.policy.eval()
        with (  # 1. tokens, from pi_old
            phase("generate"),
            self.compute.autocast(enabled=sharded),
        ):
            sampled = generate(
                self.policy.model,
                self.tokenizer,
                texts,
                max_new_tokens=self.config.max_new_tokens,
                min_new_tokens=self.config.min_new_tokens,
                stop_strings=self.config.stop_strings,
                temperature=self.config.temperature,
                seed=seed,
                rows=rows,
                batch_size=self.config.batch_size,
                bf16=self.compute.bf16 and not sharded,
                static=False if sharded else None,
            )
        with phase("judge"):  # 2. what the text is worth
            judged = sampled.judged
            parts = rollouts.call_reward(self.reward, texts, judged)
            observed = {}
            if self.observe:
                seen = self.observe(texts, judged, sampled.finished)
                observed = rollouts.as_columns(seen, len(texts))
            charges = self._charges(texts, sampled)
        pairs = zip(sampled.prompt_ids, sampled.ids, strict=True)
        batch = Rollouts(
            prompts=texts,
            completions=sampled.texts,
            finished=sampled.finished,
            rows=[[*prompt, *response] for prompt, response in pairs],
            starts=torch.tensor([len(ids) for ids in sampled.prompt_ids]),
            lengths=torch.tensor([len(ids) for ids in sampled.ids]),
            parts=parts,
            observed=observed,
            charges=charges,
            seconds=phase.spent,
        )
        with phase("score"):  # 3. log pi_old, log pi_ref and V
            batch = score(self.policy, self.reference, batch, self.compute)
        return batch

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Learn from rollouts; statistics as docs/ppo-log.md defines them.

        Raises:
            TrainingError: a gradient is not finite.
        """
        return self.learner.update(batch)

    def save(self) -> None:
        """Write a checkpoint that `resume` goes on from exactly."""
        assert self.checkpoints is not None
        tensors = self.learner.tensors()
        if self.processes.main:
            state: dict[str, Any] = {
                "identity": self._identity,
                "learner": self.learner.state(),
                "history": self.history,
                "random": checkpoint.random_state(),
            }
            if self.best is not None:
                state["best"] = [self.best.update, self.best.quality]
                tensors["best"] = self.best.weights
            checkpoint.save(
                self.checkpoints,
                checkpoint.Checkpoint(self.done, tensors, state),
            )
        self.processes.wait()

    def save_policy(self, folder: Path) -> None:
        """Write the policy as a stock model folder; all processes call it."""
        policy = sharding.gathered(self.policy)
        if self.processes.main:
            policy.save(self.tokenizer, folder)
        self.processes.wait()

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, where there is one.

        Raises:
            ConfigError: it was made with other settings, prompts or weights.
        """
        if self.checkpoints is None:
            return
        found = checkpoint.latest(self.checkpoints)
        if found is None:
            return
        if found.state["identity"] != self._identity:
            raise ConfigError(
                f"checkpoints in {self.checkpoints} must be of this run; "
                "they were made with other settings, prompts or models: "
                "remove the folder or name another one"
            )
        self.learner.restore(found.tensors, found.state["learner"])
        self.history = found.state["history"]
        self.best = None
        if best := found.state.get("best"):
            update, quality = best
            weights = found.tensors["best"]
            self.best = selection.Best(update, quality, weights)
        checkpoint.restore_random_state(found.state["random"])

    def _charges(self, prompts: list[str], sampled: Completions) -> Tensor:
        """What of the reward stands on single tokens, (B, R)."""
        charges: Sequence[Sequence[Charge]] = [[] for _ in prompts]
        if self.credit and self.config.credit != "response":
            charges = self.credit(prompts, sampled.judged)
        return on_tokens(self.tokenizer, sampled.ids, charges)

    def _step(self) -> Step:
        """One update, with its alarms and its checkpoint."""
        batch, phase = self.rollout(), Stopwatch()
        with phase("update"):
            numbers = self.update(batch)
        self.history.append(numbers)
        alarms = health.alarms(self.history)
        if not self._ill(alarms):
            with phase(VALIDATE):
                self._consider(numbers)
            if self.checkpoints and self._due(self.config.checkpoint_every):
                self.save()
        seconds = {**batch.seconds, **phase.spent}
        return Step(self.done, numbers, batch, alarms, seconds)

    def _due(self, every: int) -> bool:
        """Whether something done every so many updates, and last, is due."""
        last = self.done == len(self)
        return every > 0 and (self.done % every == 0 or last)

    def _consider(self, numbers: dict[str, float]) -> None:
        """Measure this update where that is due, and keep the best one."""
        config = self.config
        if not self.validation or not self._due(config.validate_every):
            return
        numbers |= self.validate()
        if config.keep == "best" and selection.is_better(
            numbers, self.best, config.kl_budget
        ):
            weights = {
                name: weight.cpu().clone()
                for name, weight in sharding.full(
                    self.policy.trained()
                ).items()
            }
            self.best = selection.Best(
                self.done, selection.quality(numbers), weights
            )

    def _ill(self, alarms: Sequence[health.Alarm]) -> health.Alarm | None:
        """The first grave alarm, where such are acted on."""
        if self.config.on_alarm == "warn":
            return None
        return next((alarm for alarm in alarms if alarm.grave), None)

    def _act_on(self, alarms: Sequence[health.Alarm]) -> None:
        """Go back to the last healthy checkpoint, to stop there or to go on
        at half the rate; without one, stop where we are."""
        alarm = self._ill(alarms)
        if alarm is None:
            return
        if self.config.on_alarm == "stop":
            self.stopped, seen = alarm, self.history
            self.resume()
            self.history = seen
            return
        scale = self.learner.rate_scale / 2
        if scale < 0.5**ROLLBACKS:
            raise TrainingError(
                f"still ill after {ROLLBACKS} rollbacks. {alarm}"
            )
        self.resume()
        self.learner.rate_scale = scale
        self.save()

    def _next_prompts(self) -> list[str]:
        size = self.config.batch_size
        places = draws.positions(
            self.done * size, size, len(self.prompts), self.seed
        )
        return [self.prompts[place] for place in places]

    def _identify(self) -> str:
        """A digest of what a checkpoint must share with this run."""
        settings = dataclasses.asdict(self.config)
        del settings["checkpoint_every"]
        digest = hashlib.sha256(
            json.dumps(
                [settings, self.seed, self.prompts, self.validation]
            ).encode()
        )
        for model in filter(None, (self.policy, self.reference)):
            for weight in model.parameters():
                digest.update(weight.detach().cpu().numpy().tobytes())
        return digest.hexdigest()


def _texts(prompts: Iterable[Any]) -> list[str]:
    """The prompts of a list, or of the `prompt` column of a data set."""
    return [p if isinstance(p, str) else p["prompt"] for p in prompts]


def _headline(numbers: dict[str, float]) -> dict[str, str]:
    """What stands beside the progress bar."""
    shown = {
        "score": "objective/score",
        "kl": "objective/kl",
        "compliance": "judge/compliance",
    }
    return {
        word: f"{numbers[name]:.2f}"
        for word, name in shown.items()
        if name in numbers
    }
