"""What a checkpoint shares with the run that resumes it, by name.

Graders are not compared: the stage's key has their code, and the judge.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from stylerl.config import PPOConfig

# What may change: they say how far, how often and in what portions.
FREE = ("checkpoint_every", "pass_tokens", "updates")


def identify(
    config: PPOConfig,
    seed: int,
    prompts: list[str],
    models: Iterable[nn.Module | None],
) -> dict[str, Any]:
    """Settings and seed as JSON has them, prompts and weights as digests."""
    settings = dataclasses.asdict(config)
    named = {
        **{f"ppo.{k}": v for k, v in settings.items() if k not in FREE},
        "seed": seed,
        "prompts": hashlib.sha256(json.dumps(prompts).encode()).hexdigest(),
        "weights": digest(models),
    }
    as_read_back: dict[str, Any] = json.loads(json.dumps(named))
    return as_read_back


def digest(models: Iterable[nn.Module | None]) -> str:
    """The SHA-256 of every weight of the models that there are."""
    total = hashlib.sha256()
    for model in filter(None, models):
        for weight in model.parameters():
            flat = weight.detach().cpu().contiguous().flatten()
            total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
