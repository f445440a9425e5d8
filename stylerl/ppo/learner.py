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
from stylerl.lm.logprobs import TokenScores, response_scores
from stylerl.ppo import formulas, length, rollouts
from stylerl.ppo.compute import Compute
from stylerl.ppo.policy import Policy
from stylerl.ppo.ranks import Ranks
from stylerl.ppo.rollouts import Rollouts

ADAM_EPS = 1e-5  # published PPO's; torch's default is 1e-8
MAX_GRAD_NORM = 1.0  # gradients are clipped to it
LOGGED = ("policy/loss", "policy/clipfrac", "policy/approxkl", "policy/ratio")


class RolloutTargets(NamedTuple):
    """The constants of an update; (B, R), or (N,) of a micro-batch."""

    logprobs: Tensor  # log pi_old
    advantages: Tensor


class OptimiserStep(NamedTuple):
    """What a step says of itself."""

    sums: Tensor  # of LOGGED, over the minibatch's tokens
    norm: float  # of the gradient before it was clipped


class Rewards(NamedTuple):
    """What an update pays."""

    tokens: Tensor  # (B, R); the last action has the outcome
    charges: Tensor  # (B, R), the part of them that single tokens wrote
    outcomes: Tensor  # (B,), the part of scores that no single token has


class Learner:
    """The policy's optimiser, and all other state that updates change."""

    def __init__(
        self,
        config: PPOConfig,
        policy: Policy,
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
        # The mean of log(1 + length) before any update, once it is known.
        self.log_length: float | None = None
        self.drift = 0.0  # of that mean: the d of ppo/length.py
        trained = [w for w in policy.parameters() if w.requires_grad]
        self.optimiser = torch.optim.Adam(trained, eps=ADAM_EPS, fused=True)

    def update(self, batch: Rollouts) -> dict[str, float]:
        """Learn from rollouts; the metrics of the update.

        Raises:
            TrainingError: a loss or gradient is not finite.
        """
        config = self.config
        # 1. Rewards: the score, the penalty for a cut, and the KL penalty of
        # every token.
        rewards = self.rewards(batch)
        # 2. Advantages: returns over those of siblings, less what presses on
        # length if asked for, of one size over all tokens of the batch.
        ahead = self.relative_returns(batch, rewards, config.gae_lambda)
        drift = None
        if config.keep_length:
            ahead, drift = self.keep_length(batch, rewards, ahead)
        advantages = ahead / formulas.deviation(ahead, batch.mask)
        # 3. Optimiser steps: every epoch sees every episode once.
        targets = RolloutTargets(batch.logprobs, advantages)
        share = formulas.learning_rate_share(config.updates, self.done)
        rate = config.learning_rate * share
        self.optimiser.param_groups[0]["lr"] = rate
        steps = [
            self.take_step(batch, targets, rows)
            for rows in self._minibatches(len(batch.input_ids))
        ]
        # 4. Metrics.  Sums over tokens are divided once: a mean of means would
        # weigh short responses more.
        tokens = config.update_epochs * int(batch.response_lengths.sum())
        sums = sum((step.sums for step in steps), torch.zeros(len(LOGGED)))
        metrics = rollouts.metrics_of(batch, config.kl_coef)
        metrics |= dict(zip(LOGGED, (sums / tokens).tolist(), strict=True))
        metrics["grad_norm"] = sum(step.norm for step in steps) / len(steps)
        metrics["policy/steps"] = float(len(steps))
        metrics["lr"] = rate
        if drift is not None:
            metrics["length/drift"] = drift
        self.done += 1
        return metrics

    def rewards(self, batch: Rollouts) -> Rewards:
        """The rewards of an update."""
        config = self.config
        kl = formulas.kl_k1(batch.logprobs, batch.ref_logprobs) * batch.mask
        cut = ~torch.tensor(batch.finished)
        scores = batch.scores - config.missing_eos_penalty * cut
        outcomes = scores - batch.token_rewards.sum(dim=1)
        charges = config.credit_weight * batch.token_rewards
        tokens = formulas.penalised_rewards(
            outcomes + charges.sum(dim=1),
            charges,
            kl,
            batch.response_lengths,
            config.kl_coef,
        )
        return Rewards(tokens, charges, outcomes)

    def relative_returns(
        self, batch: Rollouts, rewards: Rewards, gae_lambda: float
    ) -> Tensor:
        """Returns over those of siblings, (B, R)."""
        returns = formulas.returns_to_go(
            rewards.tokens, rewards.charges, batch.mask, gae_lambda
        )
        size = self.config.group_size
        return formulas.group_advantages(
            returns, rewards.outcomes, batch.mask, size
        )

    def keep_length(
        self, batch: Rollouts, rewards: Rewards, ahead: Tensor
    ) -> tuple[Tensor, float]:
        """Advantages, (B, R), that keep lengths; the batch's own drift."""
        logs = length.log_lengths(
            batch.prompts, batch.judged, batch.response_lengths
        )
        ended = torch.tensor(batch.finished)
        drift = 0.0
        if ended.any():
            mean = float(logs[ended].mean())
            if self.log_length is None:
                self.log_length = mean
            drift = mean - self.log_length
            new = length.NEWEST
            self.drift = (1 - new) * self.drift + new * drift
        half = (1.0 + self.config.gae_lambda) / 2
        priced = self.relative_returns(batch, rewards, half)
        longer = length.advantage_of(logs, ended, self.config.group_size)
        return (
            length.without_length(
                ahead, priced, batch.mask, longer, self.drift
            ),
            drift,
        )

    def _minibatches(self, count: int) -> Iterator[Tensor]:
        """The rows of each optimiser step of an update.

        A group stays together, and its prompt is computed once, where there
        are enough of them.
        """
        size = self.config.group_size
        if count // size < self.config.num_minibatches:
            size = 1
        groups = torch.arange(count).view(-1, size)
        steps = min(self.config.num_minibatches, len(groups))
        for epoch in range(self.config.update_epochs):
            order = draws.permutation(len(groups), self.seed, self.done, epoch)
            for part in order.tensor_split(steps):
                yield groups[part].flatten()

    def take_step(
        self, batch: Rollouts, targets: RolloutTargets, rows: Tensor
    ) -> OptimiserStep:
        """One optimiser step."""
        sums = self._gradient(batch, targets, rows)
        clipped = torch.nn.utils.clip_grad_norm_(
            self.policy.parameters(), MAX_GRAD_NORM
        )
        norm = clipped.item()
        loss = float(sums[0]) / int(batch.response_lengths[rows].sum())
        if not (math.isfinite(norm) and math.isfinite(loss)):
            raise TrainingError(
                "loss and gradient must be finite; the loss is "
                f"{loss} and the gradient's norm {norm} in update "
                f"{self.done + 1}: lower ppo.learning_rate, or set "
                "ppo.precision to fp32"
            )
        self.optimiser.step()
        self.policy.merge()
        return OptimiserStep(sums, norm)

    def _gradient(
        self, batch: Rollouts, targets: RolloutTargets, rows: Tensor
    ) -> Tensor:
        """Set the gradient of the minibatch's mean loss over its tokens.

        It is summed over micro-batches and over ranks; every token has the
        same weight, however the episodes were cut.  So are the sums of LOGGED,
        which a GPU is not waited for until they are read.
        """
        device = self.compute.device
        sums = torch.zeros(len(LOGGED), dtype=torch.double, device=device)
        tokens = int(batch.response_lengths[rows].sum())  # of all ranks
        mine = rows[self.ranks.rank :: self.ranks.world_size]
        self.optimiser.zero_grad(set_to_none=True)
        model, temperature = self.policy.model, self.compute.temperature
        # Autocast around the whole loop, so that weights are cast once.
        with self.compute.autocast():
            for part, packed in self.compute.packs(batch, mine):
                inside = batch.mask[part]
                flat = torch.stack([x[part][inside] for x in targets])
                fixed = RolloutTargets(*flat.to(device))
                scores = response_scores(model, packed, temperature)
                with self.compute.autocast(enabled=False):
                    loss, logged = self._loss(scores, fixed)
                    (loss.sum() / tokens).backward()
                sums += logged
        self.ranks.add_gradients(self.policy.parameters())
        return torch.stack(self.ranks.gather(sums.cpu())).sum(dim=0)

    def _loss(
        self, now: TokenScores, old: RolloutTargets
    ) -> tuple[Tensor, Tensor]:
        """The loss of each token, (N,): L^CLIP (PPO, eq. 7), and the sums of
        LOGGED over these tokens."""
        ratio = formulas.ratio_of(now.logprobs, old.logprobs)
        loss, clipped = formulas.policy_loss(
            ratio, old.advantages, self.config.clip_coef
        )
        moved = formulas.kl_k3(old.logprobs, now.logprobs)
        logged = (loss, clipped, moved, ratio)  # as LOGGED names them
        sums = [values.detach().double().sum() for values in logged]
        return loss, torch.stack(sums)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """The tensors of a checkpoint."""
        moments = checkpoint.optimiser_tensors(self.optimiser)
        return {
            "policy": self.policy.trained(),
            "optimiser": moments,
        }

    def state(self) -> dict[str, Any]:
        """The other state of a checkpoint, as JSON."""
        known = {"log_length": self.log_length, "drift": self.drift}
        return {"done": self.done, **known}

    def restore(
        self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]
    ) -> None:
        """Take up the state that `tensors` and `state` gave."""
        self.policy.load(tensors["policy"])
        checkpoint.restore_optimiser(self.optimiser, tensors["optimiser"])
        self.done = state["done"]
        self.log_length = state["log_length"]
        self.drift = state["drift"]
