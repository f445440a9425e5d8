"""What bf16 costs: log-probabilities and a gradient of PPO, against fp32's.

    python benchmarks/bench_precision.py

Run it in a repository whose stages up to `sft` are up to date.  The SFT
model completes a batch of PPO with the settings of params.yaml, once, in
fp32.  Then each precision scores these same completions and makes the
gradient of one optimiser step over all of them.  fp32 with half the rows in
a micro-batch is the same sum in another order: what is within its error is
no error of the precision.  Results go to benchmarks/results/precision.md.
"""

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import torch
from bench_baselines import untrained
from bench_ppo import hardware
from torch import Tensor

from stylerl import config, storage
from stylerl.config import Params
from stylerl.ppo.compute import score
from stylerl.ppo.rollouts import SampledRollouts

RESULTS = Path(__file__).resolve().parent / "results" / "precision.md"


def main() -> None:
    """Measure each precision; print and keep the table."""
    params = config.load()
    half = max(1, params.ppo.pass_tokens // 2)
    sampled = completions(params)
    exact = learn(params, sampled, precision="fp32")
    rows = []
    for name, changes in {
        "fp32, other passes": {
            "precision": "fp32",
            "pass_tokens": half,
        },
        "bf16": {"precision": "bf16"},
    }.items():
        logprobs, gradient, norm = learn(params, sampled, **changes)
        off = (logprobs - exact[0]).abs()
        error = (gradient - exact[1]).norm() / exact[1].norm()
        rows.append(
            f"| {name} | {off.mean():.1e} | {off.max():.1e} | "
            f"{100 * (norm / exact[2] - 1):+.2f}% | {100 * error:.2g}% |"
        )
    text = "\n".join(
        [
            "# What bf16 costs",
            "",
            f"{datetime.date.today()}, {hardware()}: `python "
            "benchmarks/bench_precision.py`",
            "",
            f"{len(sampled.prompts)} completions, "
            f"{int(sampled.response_lengths.sum())} tokens, against fp32; "
            "the gradient is that of one step over them all, clipped.",
            "",
            "| precision | log-probability, nats: mean error | largest | "
            "gradient's norm | gradient's error, of fp32's norm |",
            "|---|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )
    print(text)
    storage.write_text(RESULTS, text)


def completions(params: Params) -> SampledRollouts:
    """A batch of the SFT model, judged, as fp32 samples it."""
    changed = dataclasses.replace(params.ppo, precision="fp32")
    trainer = untrained(dataclasses.replace(params, ppo=changed))
    batch = trainer.rollout()
    names = [each.name for each in dataclasses.fields(SampledRollouts)]
    return SampledRollouts(**{name: getattr(batch, name) for name in names})


def learn(
    params: Params, sampled: SampledRollouts, **changes: Any
) -> tuple[Tensor, Tensor, float]:
    """Log-probabilities of the response tokens, (N,), in nats, and the
    clipped gradient of one step, (W,), with its norm before the clip."""
    changed = dataclasses.replace(params.ppo, num_minibatches=1, **changes)
    trainer = untrained(dataclasses.replace(params, ppo=changed))
    batch = score(trainer.policy, trainer.reference, sampled, trainer.compute)
    found: list[Tensor] = []

    def keep(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        weights = [w for g in optimiser.param_groups for w in g["params"]]
        found.append(torch.cat([w.grad.double().flatten() for w in weights]))

    trainer.learner.optimiser.register_step_pre_hook(keep)
    metrics = trainer.update(batch)
    return batch.logprobs[batch.mask], found[0], metrics["grad_norm"]


if __name__ == "__main__":
    main()
