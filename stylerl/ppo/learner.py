"""The PPO update, as a page of the textbook.

Notation and papers stand in formulas.py, with every formula; here they are
put together.  `Learner.update` has four numbered phases: rewards, advantages,
optimiser steps, statistics.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stylerl import draws
from stylerl.config import PPOConfig
from stylerl.errors import TrainingError
from stylerl.lm import checkpoint
from stylerl.ppo import formulas, rollouts, sharding
from stylerl.ppo.compute import Compute
from stylerl.ppo.meters import Tally
from stylerl.ppo.policy import PolicyWithValue, ResponseScores
from stylerl.ppo.processes import Processes
from stylerl.ppo.rollouts import Rollouts


class Old(NamedTuple):
    """What an update holds fixed; (B, R), or (N,) of a micro-batch."""

    logprobs: Tensor  # log pi_old
    ref_logprobs: Tensor  # log pi_ref
    values: Tensor  # V_old
    advantages: Tensor
    returns: Tensor


class Learner:
    """The policy's optimiser, and everything that moves with it."""

    def __init__(
        self,
        config: PPOConfig,
        policy: PolicyWithValue,
        compute: Compute,
        processes: Processes,
        seed: int,
    ) -> None:
        """Take over `policy`, to train it in place."""
        self.config = config
        self.policy = policy
        self.compute = compute
        self.processes = processes
        self.seed = seed
        self.done = 0  # updates
        self.kl_coef = config.kl_coef  # beta
        self.rate_scale = 1.0  # halved by every rollback
        self.score_moments = formulas.Moments()
        self.return_moments = formulas.Moments()
        trunks = [
            weight
            for name, weight in policy.named_parameters()
            if weight.requires_grad and not name.startswith("value_head.")
        ]
        self.optimiser = torch.optim.Adam(
            [
                {"params": trunks},
                {"params": list(policy.value_head.parameters())},
            ],
            eps=config.adam_eps,
            fused=True,
        )

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Learn from rollouts; the statistics of the update.

        Raises:
            TrainingError: a gradient is not finite.
        """
        # 1. Rewards: shaped scores, and the price of leaving pi_ref.
        rewards = self._rewards(batch)
        # 2. Advantages, whitened over all tokens of the batch.
        advantages, returns = formulas.advantages_and_returns(
            rewards,
            batch.values,
            batch.mask,
            self.config.gamma,
            self.config.lam,
        )
        advantages = formulas.whiten(advantages, batch.mask)
        if (limit := self.config.advantage_clip) is not None:
            advantages = advantages.clamp(-limit, limit)
        # 3. Optimiser steps: every epoch sees every episode once.
        old = Old(
            batch.logprobs,
            batch.ref_logprobs,
            batch.values,
            advantages,
            returns,
        )
        self._set_rate()
        self.policy.train(self.config.gradient_checkpointing)
        tally = Tally()
        with self.compute.attention(batch, self.policy.model):
            for rows in self._minibatches(len(batch.rows)):
                if not self._step(batch, old, rows, tally):
                    break
        # 4. Statistics, and the next KL coefficient.
        numbers = rollouts.statistics(batch, self.kl_coef) | tally.numbers()
        numbers["value/explained_variance"] = formulas.explained_variance(
            batch.values, returns, batch.mask
        )
        numbers["lr"] = self.optimiser.param_groups[0]["lr"]
        numbers["kl_coef"] = self.kl_coef
        self.kl_coef = formulas.next_kl_coef(
            self.config, self.kl_coef, numbers["objective/kl"]
        )
        self.done += 1
        return numbers

    def _rewards(self, batch: Rollouts) -> Tensor:
        """The reward of every token, (B, R)."""
        config = self.config
        kl = formulas.kl_k1(batch.logprobs, batch.ref_logprobs) * batch.mask
        beta = self.kl_coef if config.kl_penalty == "reward" else 0.0
        scores = self._shape(batch.scores, torch.tensor(batch.finished))
        scale = self.score_moments.std if config.scale_scores else 1.0
        rewards = formulas.token_rewards(
            scores, batch.charges / scale, kl, batch.lengths, beta
        )
        if config.scale_rewards:
            sums = formulas.discounted_sums(rewards, config.gamma)
            self.return_moments = self.return_moments.add(sums[batch.mask])
            rewards = rewards / self.return_moments.rms
        if config.whiten_rewards:
            rewards = formulas.whiten(rewards, batch.mask, keep_mean=True)
        return rewards

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

    def _step(
        self, batch: Rollouts, old: Old, rows: Tensor, tally: Tally
    ) -> bool:
        """One optimiser step; False where the update is to end here."""
        seen = self._gradient(batch, old, rows)
        means, config = seen.numbers(), self.config
        if config.target_kl and means["policy/approxkl"] > config.target_kl:
            return False
        if config.ratio_guard and means["policy/ratio"] > config.ratio_guard:
            tally.count("policy/skipped")
            return True
        clipped = torch.nn.utils.clip_grad_norm_(
            self.policy.parameters(), config.max_grad_norm
        )
        norm = sharding.full({"norm": clipped})["norm"].item()
        if not math.isfinite(norm):
            raise TrainingError(
                f"the gradient must be finite; its norm is {norm} in update "
                f"{self.done + 1}: lower ppo.learning_rate, or set "
                "ppo.precision to fp32"
            )
        self.optimiser.step()
        seen.count("policy/steps")
        seen.add({"grad_norm": torch.tensor(norm)})
        tally.merge(seen)
        return True

    def _gradient(self, batch: Rollouts, old: Old, rows: Tensor) -> Tally:
        """The gradient of the minibatch's mean loss over its tokens.

        It is summed over micro-batches, and over processes; each token
        weighs the same, however the episodes were cut.
        """
        seen = Tally()
        tokens = int(batch.lengths[rows].sum())
        mine = rows[self.processes.index :: self.processes.count]
        most = rows[:: self.processes.count]  # the main process's
        self.optimiser.zero_grad(set_to_none=True)
        with self.compute.autocast():  # around all: weights are cast once
            for part, micro in self.compute.micro_batches(batch, mine):
                inside = batch.mask[part]
                fixed = Old(
                    *(x[part][inside].to(self.compute.device) for x in old)
                )
                scores = self.policy(
                    *micro,
                    self.compute.temperature,
                    value_only=self._value_only,
                )
                with self.compute.autocast(enabled=False):
                    loss = self._loss(scores, fixed, seen)
                    (loss.sum() / tokens).backward()
            if self.processes.sharded and (
                self.compute.passes(mine) < self.compute.passes(most)
            ):
                self._keep_step(batch, most)
        self.processes.add_gradients(self.policy.parameters())
        every = Tally()
        for each in self.processes.gather(seen):
            every.merge(each)
        return every

    def _keep_step(self, batch: Rollouts, rows: Tensor) -> None:
        """Pass over an episode without learning from it.

        Each pass over sharded weights needs every process.
        """
        for _, micro in self.compute.micro_batches(batch, rows[:1]):
            scores = self.policy(
                *micro, self.compute.temperature, value_only=self._value_only
            )
            idle = scores.values if self._value_only else sum(scores)
            with self.compute.autocast(enabled=False):
                (0 * idle.sum()).backward()

    def _loss(self, now: ResponseScores, old: Old, tally: Tally) -> Tensor:
        """L = L^CLIP + c1 L^VF - c2 S of each token, (N,) (PPO, eq. 9)."""
        config = self.config
        ratio = formulas.ratio_of(now.logprobs, old.logprobs)
        policy, clipped = formulas.policy_loss(
            ratio,
            old.advantages,
            config.cliprange,
            config.cliprange_high or config.cliprange,
            config.dual_clip,
        )
        value, value_clipped = formulas.value_loss(
            now.values, old.values, old.returns, config.cliprange_value
        )
        tally.add(
            {
                "policy/loss": policy,
                "policy/clipfrac": clipped,
                "policy/approxkl": formulas.kl_k3(old.logprobs, now.logprobs),
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
            k3 = formulas.kl_k3(now.logprobs, old.ref_logprobs)
            loss = loss + self.kl_coef * k3
        return loss

    @property
    def _value_only(self) -> bool:
        """Whether the policy still waits for its value head."""
        return self.done < self.config.value_warmup

    def _set_rate(self) -> None:
        """The learning rates of this update."""
        config = self.config
        share = formulas.learning_rate_share(config, self.done)
        share *= self.rate_scale
        policy, value = self.optimiser.param_groups
        policy["lr"] = config.learning_rate * share
        value["lr"] = share * (
            config.value_learning_rate or config.learning_rate
        )

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """What a checkpoint keeps as safetensors; all processes ask."""
        moments = checkpoint.optimiser_tensors(self.optimiser)
        return {
            "policy": sharding.full(self.policy.trained()),
            "optimiser": sharding.full(moments),
        }

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps as JSON."""
        return {
            "done": self.done,
            "kl_coef": self.kl_coef,
            "rate_scale": self.rate_scale,
            "score_moments": list(self.score_moments),
            "return_moments": list(self.return_moments),
        }

    def restore(
        self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]
    ) -> None:
        """Undo `tensors` and `state`."""
        sharding.load(self.policy, tensors["policy"])
        checkpoint.restore_optimiser(
            self.optimiser, tensors["optimiser"], sharding.like
        )
        self.done = state["done"]
        self.kl_coef = state["kl_coef"]
        self.rate_scale = state["rate_scale"]
        self.score_moments = formulas.Moments(*state["score_moments"])
        self.return_moments = formulas.Moments(*state["return_moments"])
