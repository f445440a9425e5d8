"""Proximal policy optimisation of a language model, on one page.

    trainer = PPOTrainer(PPOConfig(), policy=model, tokenizer=tokenizer,
                         reward=my_function, prompts=["def add(a, b):\\n"])
    for step in trainer:
        print(step.statistics["objective/score"])

The notation and the papers stand in formulas.py, with every formula; here
they are put together: `rollout` samples and scores, `update` learns,
iteration repeats the two, keeps checkpoints and raises alarms.  docs/ppo.md
is the twin of this page: each statistic and each detail, with its source.

Where this departs from the papers, and from TRL's PPOTrainer
    1. One trunk carries the policy and a value head that starts at zero: no
       second model is run.
    2. The score stands on the last action, which is eos if the response was
       finished; TRL puts it one place later, on a pad.
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
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl import draws
from stylerl.config import PPOConfig
from stylerl.errors import ConfigError, TrainingError
from stylerl.logprobs import response_states, token_scores
from stylerl.policy import PolicyWithValue, ResponseScores, attention
from stylerl.ppo import checkpoint, health, rollouts
from stylerl.ppo import formulas as pm
from stylerl.ppo.meters import Stopwatch, Tally
from stylerl.ppo.rollouts import MicroBatch, Observer, Reward, Rollouts
from stylerl.sampling import generate
from stylerl.training import multiplies_bf16

__all__ = ["PPOConfig", "PPOTrainer", "Rollouts", "Step"]

ROLLBACKS = 3  # then training gives up
SHORT = 320  # tokens; bf16 attention is computed eagerly up to here


class Step(NamedTuple):
    """One update, as iteration yields it."""

    update: int  # from 1
    statistics: dict[str, float]  # see docs/ppo.md
    rollouts: Rollouts
    alarms: list[health.Alarm]
    seconds: dict[str, float]  # by phase


class Old(NamedTuple):
    """What an update holds fixed; (B, R), or (N,) of a micro-batch."""

    logprobs: Tensor  # log pi_old
    ref_logprobs: Tensor  # log pi_ref
    values: Tensor  # V_old
    advantages: Tensor
    returns: Tensor


class PPOTrainer:
    """Iterate over it, or call `rollout` and `update` yourself.

    `reward(prompts, completions)` gives one number an episode, or named
    parts that are summed.  `observe(prompts, completions, finished)` gives
    named numbers that are watched and never rewarded.  A completion that was
    cut at the token limit comes to both without its last line.
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
        seed: int = 0,
        checkpoints: Path | None = None,
    ) -> None:
        """Take over `policy`, to train it in place.

        Args:
            config: see stylerl/config.py.
            policy: a causal language model, with a value head or without.
            tokenizer: its tokenizer; pad is not eos.
            reward: scores completions.
            prompts: texts, or rows or a data set with a `prompt` column.
            reference: pi_ref; a frozen copy of the policy by default.
            observe: numbers to watch beside the reward.
            seed: of every draw.
            checkpoints: a folder to resume from; None keeps none.

        Raises:
            ConfigError: settings, tokenizer and prompts do not fit together.
        """
        self.config = config
        self.tokenizer = tokenizer
        self.reward = reward
        self.observe = observe
        self.prompts = _texts(prompts)
        self.seed = seed
        self.checkpoints = checkpoints
        _check(config, tokenizer, self.prompts, checkpoints)
        if not isinstance(policy, PolicyWithValue):
            policy = PolicyWithValue(policy)
        self.policy = policy.eval()
        if reference is None:
            reference = copy.deepcopy(self.policy.model)
        self.reference = reference.eval().requires_grad_(False)
        if config.gradient_checkpointing:
            self.policy.enable_gradient_checkpointing()
        self.bf16 = config.precision == "bf16" or (
            config.precision == "auto" and multiplies_bf16()
        )
        self.optimiser = torch.optim.Adam(
            [
                {"params": list(self.policy.model.parameters())},
                {"params": list(self.policy.value_head.parameters())},
            ],
            eps=config.adam_eps,
            fused=True,
        )
        self.done = 0  # updates
        self.kl_coef = config.kl_coef  # beta
        self.rate_scale = 1.0  # halved by every rollback
        self.score_moments = pm.Moments()
        self.return_moments = pm.Moments()
        self.history: list[dict[str, float]] = []  # statistics by update
        self.stopped: health.Alarm | None = None
        self._identity = self._identify()

    def __len__(self) -> int:
        """The number of updates."""
        return self.config.updates

    def __iter__(self) -> Iterator[Step]:
        """Run the updates that are left, from the last checkpoint on.

        Raises:
            TrainingError: a gradient is not finite, or a grave alarm came
                again after every rollback.
        """
        self.resume()
        if self.config.on_alarm == "rollback" and self.done == 0:
            self.save()
        with tqdm(
            total=len(self), initial=self.done, desc="ppo", unit="update"
        ) as bar:
            while self.done < len(self) and self.stopped is None:
                step = self._step()
                bar.set_postfix(_headline(step.statistics))
                bar.update()
                yield step
                self._act_on(step.alarms)
                bar.n = self.done

    # ---- Rollout: sample from pi_old, and score. --------------------------

    def rollout(self, prompts: Sequence[str] | None = None) -> Rollouts:
        """Sample one completion a prompt and score it; nothing is learnt.

        Without `prompts`, those of the next update are taken.
        """
        texts = list(prompts or self._next_prompts())
        phase = Stopwatch()
        with phase("generate"):  # 1. tokens
            sampled = generate(
                self.policy.model,
                self.tokenizer,
                texts,
                max_new_tokens=self.config.max_new_tokens,
                temperature=self.config.temperature,
                seed=draws.seed_of(self.seed, self.done, "sample"),
                batch_size=len(texts),
                bf16=self.bf16,
            )
        with phase("judge"):  # 2. what the text is worth
            judged = sampled.judged
            parts = rollouts.call_reward(self.reward, texts, judged)
            observed = {}
            if self.observe:
                seen = self.observe(texts, judged, sampled.finished)
                observed = rollouts.as_columns(seen, len(texts))
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
            seconds=phase.spent,
        )
        with phase("score"), self._attention(batch):  # 3. pi_old, pi_ref, V
            return self._score(batch)

    @torch.no_grad()
    def _score(self, batch: Rollouts) -> Rollouts:
        """Fill in log-probabilities, entropy and values, (B, R) each."""
        found = [torch.zeros(batch.mask.shape) for _ in range(4)]
        for rows, micro in self._micro_batches(batch):
            with self._autocast():
                ours = self.policy(*micro, self.config.temperature)
                states = response_states(self.reference, *micro)
                theirs = token_scores(
                    self.reference, *states, self.config.temperature
                )
            inside = batch.mask[rows]
            for full, flat in zip(
                found, (*ours, theirs.logprobs), strict=True
            ):
                part = torch.zeros(inside.shape)
                part[inside] = flat.cpu()
                full[rows] = part
        logprobs, entropy, values, ref_logprobs = found
        return dataclasses.replace(
            batch,
            logprobs=logprobs,
            ref_logprobs=ref_logprobs,
            entropy=entropy,
            values=values,
        )

    # ---- Update: learn from rollouts. -------------------------------------

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Take the optimiser steps of one update; its statistics.

        Raises:
            TrainingError: a gradient is not finite.
        """
        config = self.config
        # 1. Rewards: shaped scores, and the price of leaving pi_ref.
        kl = pm.kl_k1(batch.logprobs, batch.ref_logprobs) * batch.mask
        beta = self.kl_coef if config.kl_penalty == "reward" else 0.0
        scores = self._shape(batch.scores, torch.tensor(batch.finished))
        rewards = pm.token_rewards(scores, kl, batch.lengths, beta)
        if config.scale_rewards:
            sums = pm.discounted_sums(rewards, config.gamma)[batch.mask]
            self.return_moments = self.return_moments.add(sums)
            rewards = rewards / self.return_moments.rms
        if config.whiten_rewards:
            rewards = pm.whiten(rewards, batch.mask, keep_mean=True)
        # 2. Advantages, whitened over all tokens of the batch.
        advantages, returns = pm.advantages_and_returns(
            rewards, batch.values, batch.mask, config.gamma, config.lam
        )
        advantages = pm.whiten(advantages, batch.mask)
        if (limit := config.advantage_clip) is not None:
            advantages = advantages.clamp(-limit, limit)
        # 3. Optimiser steps: every epoch sees every episode once.
        self._set_rate()
        old = Old(
            batch.logprobs,
            batch.ref_logprobs,
            batch.values,
            advantages,
            returns,
        )
        tally = Tally()
        with self._attention(batch):
            for rows in self._minibatches(len(batch.rows)):
                if not self._learn(batch, old, rows, tally):
                    break
        # 4. Statistics, and the next KL coefficient.
        numbers = rollouts.statistics(batch, self.kl_coef) | tally.numbers()
        numbers["value/explained_variance"] = pm.explained_variance(
            batch.values, returns, batch.mask
        )
        numbers["lr"] = self.optimiser.param_groups[0]["lr"]
        numbers["kl_coef"] = self.kl_coef
        self.kl_coef = pm.next_kl_coef(
            config, self.kl_coef, numbers["objective/kl"]
        )
        self.done += 1
        return numbers

    def _shape(self, scores: Tensor, finished: Tensor) -> Tensor:
        """Scale, clip, and charge what was cut, (B,) each."""
        config = self.config
        if config.scale_scores:
            self.score_moments = self.score_moments.add(scores)
            scores = scores / self.score_moments.std
        if (limit := config.score_clip) is not None:
            scores = scores.clamp(-limit, limit)
        return scores - config.missing_eos_penalty * ~finished

    def _minibatches(self, count: int) -> Iterator[Tensor]:
        """The rows of each optimiser step of an update."""
        for epoch in range(self.config.epochs):
            order = draws.permutation(count, self.seed, self.done, epoch)
            yield from order.tensor_split(self.config.minibatches)

    def _learn(
        self, batch: Rollouts, old: Old, rows: Tensor, tally: Tally
    ) -> bool:
        """One optimiser step; False where the update is to end here.

        The gradient is accumulated over micro-batches.  Each token weighs
        the same, however the episodes were cut.
        """
        config, seen = self.config, Tally()
        tokens = int(batch.lengths[rows].sum())
        self.optimiser.zero_grad(set_to_none=True)
        with self._autocast():  # around all of them: weights are cast once
            for part, micro in self._micro_batches(batch, rows):
                inside = batch.mask[part]
                fixed = Old(
                    *(x[part][inside].to(self.policy.device) for x in old)
                )
                scores = self.policy(
                    *micro, config.temperature, value_only=self._value_only
                )
                with self._autocast(enabled=False):
                    loss = self._loss(scores, fixed, seen)
                    (loss.sum() / tokens).backward()
        means = seen.numbers()
        if config.target_kl and means["policy/approxkl"] > config.target_kl:
            return False
        if config.ratio_guard and means["policy/ratio"] > config.ratio_guard:
            tally.count("policy/skipped")
            return True
        norm = torch.nn.utils.clip_grad_norm_(
            self.policy.parameters(), config.max_grad_norm
        )
        if not norm.isfinite():
            raise TrainingError(
                f"the gradient must be finite; its norm is {norm.item()} in "
                f"update {self.done + 1}: lower ppo.learning_rate, or set "
                "ppo.precision to fp32"
            )
        self.optimiser.step()
        seen.count("policy/steps")
        seen.add({"grad_norm": norm})
        tally.merge(seen)
        return True

    def _loss(self, now: ResponseScores, old: Old, tally: Tally) -> Tensor:
        """L = L^CLIP + c1 L^VF - c2 S of each token, (N,) (PPO, eq. 9)."""
        config = self.config
        ratio = pm.ratio_of(now.logprobs, old.logprobs)
        policy, clipped = pm.policy_loss(
            ratio,
            old.advantages,
            config.cliprange,
            config.cliprange_high or config.cliprange,
            config.dual_clip,
        )
        value, value_clipped = pm.value_loss(
            now.values, old.values, old.returns, config.cliprange_value
        )
        tally.add(
            {
                "policy/loss": policy,
                "policy/clipfrac": clipped,
                "policy/approxkl": pm.kl_k3(old.logprobs, now.logprobs),
                "policy/ratio": ratio,
                "policy/entropy": now.entropy,
                "value/loss": value,
                "value/clipfrac": value_clipped,
            }
        )
        tally.peak("policy/ratio_max", ratio)
        if self._value_only:
            return config.vf_coef * value
        loss = policy + config.vf_coef * value
        if config.entropy_coef:
            loss = loss - config.entropy_coef * now.entropy
        if config.kl_penalty == "loss":
            k3 = pm.kl_k3(now.logprobs, old.ref_logprobs)
            loss = loss + self.kl_coef * k3
        return loss

    # ---- Iteration: one step, alarms, checkpoints. ------------------------

    def _step(self) -> Step:
        batch, phase = self.rollout(), Stopwatch()
        with phase("update"):
            numbers = self.update(batch)
        self.history.append(numbers)
        alarms = health.alarms(self.history)
        if not any(alarm.grave for alarm in alarms):
            self._keep_checkpoint()
        seconds = {**batch.seconds, **phase.spent}
        return Step(self.done, numbers, batch, alarms, seconds)

    def _act_on(self, alarms: Sequence[health.Alarm]) -> None:
        """Go back to the last healthy checkpoint, to stop there or to go on
        at half the rate; without one, stop where we are."""
        grave = next((alarm for alarm in alarms if alarm.grave), None)
        if grave is None or self.config.on_alarm == "warn":
            return
        if self.config.on_alarm == "stop":
            self.stopped, seen = grave, self.history
            self.resume()
            self.history = seen
            return
        scale = self.rate_scale / 2
        if scale < 0.5**ROLLBACKS:
            raise TrainingError(
                f"still ill after {ROLLBACKS} rollbacks. {grave}"
            )
        self.resume()
        self.rate_scale = scale
        self.save()

    def _keep_checkpoint(self) -> None:
        """Save where the schedule of checkpoints asks for it."""
        every = self.config.checkpoint_every
        due = every and (self.done % every == 0 or self.done == len(self))
        if self.checkpoints and due:
            self.save()

    def save(self) -> None:
        """Write a checkpoint that `resume` goes on from exactly."""
        assert self.checkpoints is not None
        state = {
            "identity": self._identity,
            "kl_coef": self.kl_coef,
            "rate_scale": self.rate_scale,
            "score_moments": self.score_moments,
            "return_moments": self.return_moments,
            "history": self.history,
            "random": checkpoint.random_state(),
        }
        tensors = {
            "policy": checkpoint.untied(self.policy.state_dict()),
            "optimiser": checkpoint.optimiser_tensors(self.optimiser),
        }
        checkpoint.save(
            self.checkpoints,
            checkpoint.Checkpoint(self.done, tensors, state),
        )

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
        self.policy.load_state_dict(found.tensors["policy"], strict=False)
        checkpoint.restore_optimiser(
            self.optimiser, found.tensors["optimiser"]
        )
        self.done = found.update
        self.kl_coef = found.state["kl_coef"]
        self.rate_scale = found.state["rate_scale"]
        self.score_moments = pm.Moments(*found.state["score_moments"])
        self.return_moments = pm.Moments(*found.state["return_moments"])
        self.history = found.state["history"]
        checkpoint.restore_random_state(found.state["random"])

    # ---- Small things. ----------------------------------------------------

    @property
    def _value_only(self) -> bool:
        return self.done < self.config.value_warmup

    def _autocast(self, *, enabled: bool = True) -> torch.autocast:
        return torch.autocast(
            self.policy.device.type,
            torch.bfloat16,
            enabled=self.bf16 and enabled,
        )

    def _attention(self, batch: Rollouts) -> AbstractContextManager[None]:
        """On a CPU in bf16, torch's fused attention is the slower one for
        short sequences; eager memory grows with the square of the length.
        """
        longest = int((batch.starts + batch.lengths).max())
        if self.bf16 and self.policy.device.type == "cpu" and longest <= SHORT:
            models = (self.policy.model, self.reference)
            return attention("eager", *models)
        return nullcontext()

    def _micro_batches(
        self, batch: Rollouts, rows: Tensor | None = None
    ) -> Iterator[tuple[Tensor, MicroBatch]]:
        if rows is None:
            rows = torch.arange(len(batch.rows))
        return rollouts.micro_batches(
            batch, rows, self.config.micro_batch, self.policy.device
        )

    def _next_prompts(self) -> list[str]:
        size = self.config.batch_size
        places = draws.positions(
            self.done * size, size, len(self.prompts), self.seed
        )
        return [self.prompts[place] for place in places]

    def _set_rate(self) -> None:
        config = self.config
        share = pm.learning_rate_share(config, self.done) * self.rate_scale
        policy, value = self.optimiser.param_groups
        policy["lr"] = config.learning_rate * share
        value["lr"] = share * (
            config.value_learning_rate or config.learning_rate
        )

    def _identify(self) -> str:
        """A digest of what a checkpoint must share with this run."""
        settings = dataclasses.asdict(self.config)
        del settings["checkpoint_every"]
        digest = hashlib.sha256(
            json.dumps([settings, self.seed, self.prompts]).encode()
        )
        for model in (self.policy, self.reference):
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


def _check(
    config: PPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    checkpoints: Path | None,
) -> None:
    """Raise ConfigError where settings do not fit together."""
    if config.minibatches > config.batch_size:
        raise ConfigError(
            f"ppo.minibatches must be at most ppo.batch_size, "
            f"{config.batch_size}; got {config.minibatches}"
        )
    if not prompts:
        raise ConfigError("there must be at least one prompt; got none")
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        raise ConfigError(
            "the tokenizer's pad token must exist and differ from eos; got "
            f"{tokenizer.pad_token!r}: use stylerl.models.load_tokenizer"
        )
    healthy = checkpoints is not None and config.checkpoint_every > 0
    if config.on_alarm == "rollback" and not healthy:
        raise ConfigError(
            "ppo.on_alarm: rollback needs checkpoints to go back to; give "
            "a folder and ppo.checkpoint_every of 1 or more"
        )
