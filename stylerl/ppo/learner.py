"""The PPO update, as a page of the textbook.

formulas.py has the formulas, their notation and their papers; here they are
put together.  `Learner.update` has four numbered phases: rewards, advantages,
optimiser steps, metrics.
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
from stylerl.ppo import formulas, rollouts
from stylerl.ppo.compute import Compute
from stylerl.ppo.length_floor import LengthFloor
from stylerl.ppo.meters import MetricSums
from stylerl.ppo.policy import PolicyWithValue, ResponseScores
from stylerl.ppo.ranks import Ranks
from stylerl.ppo.rollouts import Rollouts

ADAM_EPS = 1e-5  # published PPO's; torch's default is 1e-8
MAX_GRAD_NORM = 1.0  # gradients are clipped to it
VALUE_RATE = 1e-3  # peak of the value head's own rate: it is new
VALUE_WEIGHT = 0.1  # of the value loss: it shares the policy's trunk


class RolloutTargets(NamedTuple):
    """The constants of an update; (B, R), or (N,) of a micro-batch."""

    logprobs: Tensor  # log pi_old
    values: Tensor  # V_old
    advantages: Tensor
    returns: Tensor


class Learner:
    """The policy's optimiser, and all other state that updates change."""

    def __init__(
        self,
        config: PPOConfig,
        policy: PolicyWithValue,
        compute: Compute,
        ranks: Ranks,
        seed: int,
    ) -> None:
        """Train `policy` in place."""
        self.config = config
        self.policy = policy
        self.compute = compute
        self.ranks = ranks
        self.seed = seed
        self.done = 0  # updates
        self.floor = LengthFloor(config.length_floor)
        self.return_squares = formulas.MeanSquare()
        # Two groups, since the new value head learns at a rate of its own.
        policy_weights = [
            weight
            for name, weight in policy.named_parameters()
            if weight.requires_grad and not name.startswith("value_head.")
        ]
        groups = [{"params": policy_weights}]
        if policy.value_head is not None:
            groups.append({"params": list(policy.value_head.parameters())})
        self.optimiser = torch.optim.Adam(groups, eps=ADAM_EPS, fused=True)

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Learn from rollouts; the metrics of the update.

        Raises:
            TrainingError: a loss or gradient is not finite.
        """
        # 1. Rewards: the score, the penalty for a cut, the bonus of the length
        # floor, and the KL penalty of every token.
        seen = self.floor.observe(batch)
        rewards, outcomes = self.rewards(batch, seen.bonus)
        # 2. Advantages, of one size over all tokens of the batch.
        advantages, returns, explained = self.advantages(
            batch, rewards, outcomes
        )
        if self.config.critic:
            advantages = formulas.whiten(advantages, batch.mask)
        else:
            size = formulas.deviation(advantages, batch.mask)
            advantages = advantages / size
        # 3. Optimiser steps: every epoch sees every episode once.
        targets = RolloutTargets(
            batch.logprobs,
            batch.values,
            advantages,
            returns,
        )
        self._set_rate()
        sums = MetricSums()
        # Sums of every step are kept, and divided once at the end.
        for rows in self._minibatches(len(batch.input_ids)):
            self.take_step(batch, targets, rows, sums)
        # 4. Metrics, and the next price.
        metrics = rollouts.metrics_of(batch, self.config.kl_coef)
        metrics |= sums.metrics()
        metrics["policy/steps"] = float(sums.sizes["grad_norm"])
        metrics |= seen.metrics
        if explained is not None:
            metrics["value/explained_variance"] = explained
        metrics["lr"] = self.optimiser.param_groups[0]["lr"]
        self.floor.move(seen.shortfall)
        self.done += 1
        return metrics

    def rewards(
        self, batch: Rollouts, bonus: Tensor | float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Rewards of tokens, (B, R), and outcomes, (B,).

        An outcome is the part of a score that belongs to no single token;
        the last action gets it.

        `bonus`, (B,), is what the floor adds to each score.
        """
        config = self.config
        kl = formulas.kl_k1(batch.logprobs, batch.ref_logprobs) * batch.mask
        cut = ~torch.tensor(batch.finished)
        scores = batch.scores + bonus - config.missing_eos_penalty * cut
        outcomes = scores - batch.token_rewards.sum(dim=1)
        charged = self._weighted_charges(batch)
        rewards = formulas.penalised_rewards(
            outcomes + charged.sum(dim=1),
            charged,
            kl,
            batch.response_lengths,
            config.kl_coef,
        )
        # The policy loss does not depend on the rewards' scale, since
        # advantages are divided by their own; a value loss does, and the two
        # share a trunk.
        sums = formulas.discounted_sums(rewards, 1.0)
        self.return_squares = self.return_squares.add(sums[batch.mask])
        return rewards / self.reward_scale, outcomes / self.reward_scale

    def _weighted_charges(self, batch: Rollouts) -> Tensor:
        """Each token's charge, (B, R): its reward times credit_weight."""
        return self.config.credit_weight * batch.token_rewards

    @property
    def reward_scale(self) -> float:
        """The divisor of rewards: the root mean square of returns so far."""
        return self.return_squares.root

    def advantages(
        self, batch: Rollouts, rewards: Tensor, outcomes: Tensor
    ) -> tuple[Tensor, Tensor, float | None]:
        """Advantages and returns, (B, R), before they are brought to one
        size, and the variance that the value explains, if there is one."""
        config, mask = self.config, batch.mask
        if not config.critic:
            located = self._weighted_charges(batch) / self.reward_scale
            sums = formulas.returns_to_go(
                rewards, located, mask, config.gae_lambda
            )
            ahead = formulas.group_advantages(
                sums, outcomes, mask, config.group_size
            )
            return ahead, sums, None
        advantages, returns = formulas.advantages_and_returns(
            rewards, batch.values, mask, 1.0, config.gae_lambda
        )
        explained = formulas.explained_variance(batch.values, returns, mask)
        return advantages, returns, explained

    def _minibatches(self, count: int) -> Iterator[Tensor]:
        """The rows of each optimiser step of an update.

        A group stays together, and its prompt is computed once, where there
        are enough of them.
        """
        size = self.config.copies
        if count // size < self.config.num_minibatches:
            size = 1
        groups = torch.arange(count).view(-1, size)
        steps = min(self.config.num_minibatches, len(groups))
        for epoch in range(self.config.update_epochs):
            order = draws.permutation(len(groups), self.seed, self.done, epoch)
            for part in order.tensor_split(steps):
                yield groups[part].flatten()

    def take_step(
        self,
        batch: Rollouts,
        targets: RolloutTargets,
        rows: Tensor,
        sums: MetricSums,
    ) -> None:
        """One optimiser step."""
        step_sums = self._gradient(batch, targets, rows)
        clipped = torch.nn.utils.clip_grad_norm_(
            self.policy.parameters(), MAX_GRAD_NORM
        )
        norm = clipped.item()
        loss = step_sums.metrics()["policy/loss"]
        if not (math.isfinite(norm) and math.isfinite(loss)):
            raise TrainingError(
                "loss and gradient must be finite; the loss is "
                f"{loss} and the gradient's norm {norm} in update "
                f"{self.done + 1}: lower ppo.learning_rate, or set "
                "ppo.precision to fp32"
            )
        self.optimiser.step()
        self.policy.merge()
        step_sums.sums["grad_norm"], step_sums.sizes["grad_norm"] = norm, 1
        sums.merge(step_sums)

    def _gradient(
        self, batch: Rollouts, targets: RolloutTargets, rows: Tensor
    ) -> MetricSums:
        """Set the gradient of the minibatch's mean loss over its tokens.

        It is summed over micro-batches and over ranks; every token has the
        same weight, however the episodes were cut.
        """
        own_sums = MetricSums()
        tokens = int(batch.response_lengths[rows].sum())  # of all ranks
        mine = rows[self.ranks.rank :: self.ranks.world_size]
        self.optimiser.zero_grad(set_to_none=True)
        # Autocast around the whole loop, so that weights are cast once.
        with self.compute.autocast():
            for part, packed in self.compute.packs(batch, mine):
                inside = batch.mask[part]
                flat = torch.stack([x[part][inside] for x in targets])
                fixed = RolloutTargets(*flat.to(self.compute.device))
                scores = self.policy(packed, self.compute.temperature)
                with self.compute.autocast(enabled=False):
                    loss = self._loss(scores, fixed, own_sums)
                    (loss.sum() / tokens).backward()
        self.ranks.add_gradients(self.policy.parameters())
        step_sums = MetricSums()
        for sums in self.ranks.gather(own_sums.on_host()):
            step_sums.merge(sums)
        return step_sums

    def _loss(
        self, now: ResponseScores, old: RolloutTargets, sums: MetricSums
    ) -> Tensor:
        """The loss of each token, (N,): L^CLIP (PPO, eq. 7).

        With a value + c1 L^VF (eq. 9); entropy is logged alone.
        """
        config = self.config
        ratio = formulas.ratio_of(now.logprobs, old.logprobs)
        policy, clipped = formulas.policy_loss(
            ratio, old.advantages, config.clip_coef
        )
        loss = policy
        sums.add(
            {
                "policy/loss": policy,
                "policy/clipfrac": clipped,
                "policy/approxkl": formulas.kl_k3(old.logprobs, now.logprobs),
                "policy/ratio": ratio,
                "policy/entropy": now.entropy,
            }
        )
        sums.maximum("policy/ratio_max", ratio)
        if config.critic:
            value, value_clipped = formulas.value_loss(
                now.values, old.values, old.returns, config.clip_coef
            )
            sums.add({"value/loss": value, "value/clipfrac": value_clipped})
            loss = loss + VALUE_WEIGHT * value
        return loss

    def _set_rate(self) -> None:
        """The learning rates of this update."""
        share = formulas.learning_rate_share(self.config.updates, self.done)
        policy, *value = self.optimiser.param_groups
        policy["lr"] = self.config.learning_rate * share
        for group in value:
            group["lr"] = VALUE_RATE * share

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """The tensors of a checkpoint; every rank calls this."""
        moments = checkpoint.optimiser_tensors(self.optimiser)
        return {
            "policy": self.policy.trained(),
            "optimiser": moments,
        }

    def state(self) -> dict[str, Any]:
        """The other state of a checkpoint, as JSON."""
        return {
            "done": self.done,
            "length_floor": self.floor.state(),
            "return_squares": list(self.return_squares),
        }

    def restore(
        self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]
    ) -> None:
        """Take up the state that `tensors` and `state` gave."""
        self.policy.load(tensors["policy"])
        checkpoint.restore_optimiser(self.optimiser, tensors["optimiser"])
        self.done = state["done"]
        self.floor.restore(state["length_floor"])
        self.return_squares = formulas.MeanSquare(*state["return_squares"])
