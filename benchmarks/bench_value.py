"""What a linear value head can explain, and at which rate it learns that.

    python benchmarks/bench_value.py

Run from the root after the stage `sft` (and `label`).  Batches of the SFT
model's own episodes are drawn as the stage `ppo` would, and the states before
each token are kept: the policy stands still, so that the head is all there is.
Printed are the explained variance of new episodes by a ridge regression of
the score on the states, the ceiling of any linear head; and that of returns
by a head trained as in PPO, for several rates, with and without the clip.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from stylerl import config, storage
from stylerl.data.places import places_of_labels
from stylerl.lm.logprobs import response_states, right_pad
from stylerl.ppo import formulas
from stylerl.ppo.factory import build_trainer
from stylerl.ppo.learner import ADAM_EPS
from stylerl.ppo.policy import PolicyWithValue
from stylerl.ppo.rollouts import Rollouts

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
RIDGES = (1e4, 1e5, 3e5, 1e6)
WARM = 3  # batches in which the rate rises
SEEDS = 2


class Episodes(NamedTuple):
    """One batch, with the states before its tokens."""

    states: Tensor  # (N, H) fp32
    scores: Tensor  # (B,) shaped
    mask: Tensor  # (B, R)
    lengths: Tensor  # (B,)


def main() -> None:
    """Draw the episodes, then print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "")[:70])
    parser.add_argument("--batches", type=int, default=16)
    count = parser.parse_args().batches
    params = config.load()
    settings = dataclasses.replace(
        params.ppo, baseline="value", checkpoint_every=0
    )
    labels = storage.read_table(Path("artifacts/label/labels.parquet"))
    trainer = build_trainer(
        "artifacts/sft",
        dataclasses.replace(params, ppo=settings),
        labels,
        places=places_of_labels(Path("artifacts/filter"), labels),
    )
    batches = []
    for trainer.learner.done in range(count):
        batch = trainer.rollout()
        cut = ~torch.tensor(batch.finished)
        scores = batch.scores - settings.missing_eos_penalty * cut
        states = states_of(trainer.policy, batch)
        batches.append(
            Episodes(states, scores, batch.mask, batch.response_lengths)
        )
    report(batches, settings)


def states_of(policy: PolicyWithValue, batch: Rollouts) -> Tensor:
    """The last hidden state before every response token, (N, H)."""
    with torch.inference_mode():
        ids = right_pad(batch.input_ids, pad=0)
        found, _ = response_states(
            policy.model, ids, batch.prompt_lengths, batch.response_lengths
        )
    return found.float().clone()


def report(batches: list[Episodes], settings: config.PPOConfig) -> None:
    """Print the ceiling, and what a head reaches at each rate."""
    half = 3 * len(batches) // 4
    for ridge in RIDGES:
        seen, new = ceiling(batches[:half], batches[half:], ridge)
        print(f"ridge {ridge:g}: {seen:.3f} of seen, {new:.3f} of new scores")
    for rate in RATES:
        for clip in (settings.clip_coef, float("inf")):
            options = dataclasses.replace(
                settings, value_learning_rate=rate, clip_coef=clip
            )
            found = [learn(batches, options, seed) for seed in range(SEEDS)]
            print(
                f"rate {rate:g}, clip {clip:g}: explained variance "
                f"{sum(found) / SEEDS:+.3f} of returns, later half"
            )


def ceiling(
    seen: list[Episodes], new: list[Episodes], ridge: float
) -> tuple[float, float]:
    """Explained variance of seen and of new scores by ridge regression."""

    def table(batches: list[Episodes]) -> tuple[Tensor, Tensor]:
        scores = [b.scores.repeat_interleave(b.lengths) for b in batches]
        return torch.cat([b.states for b in batches]), torch.cat(scores)

    x, y = table(seen)
    centre, mean = x.mean(dim=0), y.mean()
    a = (x - centre).double()
    penalty = ridge * torch.eye(a.shape[1])
    weight = torch.linalg.solve(a.T @ a + penalty, a.T @ (y - mean).double())

    def explained(states: Tensor, scores: Tensor) -> float:
        guess = (states - centre).double() @ weight
        return 1 - float((scores - guess).var() / scores.var())

    return explained(x, y), explained(*table(new))


def learn(
    batches: list[Episodes], settings: config.PPOConfig, seed: int
) -> float:
    """Train a head as the learner does; its mean over the later half."""
    torch.manual_seed(seed)
    head = nn.Linear(batches[0].states.shape[1], 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    rate = settings.value_learning_rate or settings.learning_rate
    optimiser = torch.optim.Adam(head.parameters(), eps=ADAM_EPS)
    moments, found = formulas.Moments(), []
    for number, batch in enumerate(batches, start=1):
        none = torch.zeros(batch.mask.shape)
        values = none.clone()
        values[batch.mask] = head(batch.states)[:, 0].detach()
        rewards = formulas.penalised_rewards(
            batch.scores, none, none, batch.lengths, 0.0
        )
        sums = formulas.discounted_sums(rewards, settings.gamma)
        moments = moments.add(sums[batch.mask])
        _, returns = formulas.advantages_and_returns(
            rewards / moments.rms,
            values,
            batch.mask,
            settings.gamma,
            settings.gae_lambda,
        )
        found.append(formulas.explained_variance(values, returns, batch.mask))
        optimiser.param_groups[0]["lr"] = rate * min(1, number / WARM)
        old, target = values[batch.mask], returns[batch.mask]
        episode = torch.arange(len(batch.lengths))
        episode = episode.repeat_interleave(batch.lengths)
        for _ in range(settings.update_epochs):
            order = torch.randperm(len(batch.lengths))
            for rows in order.tensor_split(settings.num_minibatches):
                part = torch.isin(episode, rows)
                loss, _ = formulas.value_loss(
                    head(batch.states[part])[:, 0],
                    old[part],
                    target[part],
                    settings.clip_coef,
                )
                optimiser.zero_grad()
                (settings.vf_coef * loss.mean()).backward()
                optimiser.step()
    later = found[len(found) // 2 :]
    return sum(later) / len(later)


if __name__ == "__main__":
    main()
