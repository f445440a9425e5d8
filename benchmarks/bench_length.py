"""What presses on the length of completions: PPO's parts, by gradient.

    python benchmarks/bench_length.py [--batches N]

Run it in a repository whose stages up to `sft` are up to date.  Before any
update, the SFT model fills batches of PPO with the settings of params.yaml.
The advantages of a batch are a sum of parts, and so is their gradient g:

    outcome   the score, less what single tokens are charged
    charges   of tokens, as returns to go count them
    mean      what counting charges above their mean adds

G is the gradient that the mean rank by length, times 2, would have as a
score.  A row has (g . G) / (G . G) of each part, in points of the score: what
a unit of length would have to be worth to press as much.  Below 0 a part
makes completions shorter.  Results go to benchmarks/results/length.md.
"""

import argparse
import datetime
from pathlib import Path

import torch
from bench_baselines import untrained
from bench_ppo import hardware
from torch import Tensor

from stylerl import config, storage
from stylerl.ppo import PPOTrainer, Rollouts, formulas
from stylerl.ppo.length_floor import FIRST

RESULTS = Path(__file__).resolve().parent / "results" / "length.md"
PARTS = ("outcome", "charges", "mean")


def main() -> None:
    """Measure each batch; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=2)
    options = parser.parse_args()
    params = config.load()
    trainer = untrained(params)
    trainer.measure_reference()
    rows = []
    for number in range(options.batches):
        trainer.learner.done = number  # of the prompts
        prices = pressure(trainer, trainer.rollout())
        cells = [f"{prices[name]:+.2f}" for name in PARTS]
        rows.append(f"| {number + 1} | {' | '.join(cells)} |")
    text = "\n".join(
        [
            "# What presses on length",
            "",
            f"{datetime.date.today()}, {hardware()}, seed {params.seed}: "
            f"`python benchmarks/bench_length.py --batches {options.batches}`",
            "",
            "What a unit of length would have to be worth, in points of the "
            "score, to press as much as each part does before any update.",
            "",
            f"| batch | {' | '.join(PARTS)} |",
            f"|---:{'|---:' * len(PARTS)}|",
            *rows,
            "",
        ]
    )
    print(text)
    storage.write_text(RESULTS, text)


def pressure(trainer: PPOTrainer, batch: Rollouts) -> dict[str, float]:
    """How each part presses in one batch."""
    length = gradient(trainer, batch, advantages_of_length(trainer, batch))
    square = length @ length
    return {
        name: float(gradient(trainer, batch, part) @ length / square)
        for name, part in parts(trainer, batch).items()
    }


def parts(trainer: PPOTrainer, batch: Rollouts) -> dict[str, Tensor]:
    """The advantages of each part, (B, R), not yet brought to one size."""
    settings, mask = trainer.config, batch.mask
    charges = settings.credit_weight * batch.token_rewards
    outcomes = batch.scores - batch.token_rewards.sum(dim=1)
    cut = ~torch.tensor(batch.finished)
    outcomes = outcomes - settings.missing_eos_penalty * cut
    nothing = torch.zeros_like(outcomes)
    alone = at_last(batch, outcomes)
    above = formulas.returns_to_go(charges, charges, mask, settings.gae_lambda)
    plain = formulas.discounted_sums(charges, settings.gae_lambda) * mask
    size = settings.group_size
    return {
        "outcome": formulas.group_advantages(alone, outcomes, mask, size),
        "charges": formulas.group_advantages(plain, nothing, mask, size),
        "mean": formulas.group_advantages(above - plain, nothing, mask, size),
    }


def advantages_of_length(trainer: PPOTrainer, batch: Rollouts) -> Tensor:
    """The advantages, (B, R), of the mean rank by length, times 2."""
    floor = trainer.learner.floor
    assert floor.reference is not None
    gain = floor.observe(batch).bonus / (FIRST * floor.reference.sigma)
    return formulas.group_advantages(
        at_last(batch, gain), gain, batch.mask, trainer.config.group_size
    )


def at_last(batch: Rollouts, rewards: Tensor) -> Tensor:
    """The sums to come, (B, R), of rewards (B,) of the last actions."""
    return rewards[:, None] * batch.mask


def gradient(
    trainer: PPOTrainer, batch: Rollouts, advantages: Tensor
) -> Tensor:
    """The gradient, (W,), of the mean of A log pi over response tokens."""
    policy, compute = trainer.policy, trainer.compute
    policy.zero_grad(set_to_none=True)
    tokens = int(batch.response_lengths.sum())
    rows = torch.arange(len(batch.prompts))
    with compute.autocast():
        for part, packed in compute.packs(batch, rows):
            ahead = advantages[part][batch.mask[part]].to(compute.device)
            scores = policy(packed, compute.temperature)
            (ahead * scores.logprobs).sum().div(tokens).backward()
    grads = [w.grad for w in policy.parameters() if w.grad is not None]
    return torch.cat([grad.double().flatten() for grad in grads])


if __name__ == "__main__":
    main()
