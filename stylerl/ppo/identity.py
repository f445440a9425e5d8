"""The identity of a run, which a checkpoint shares with the run it resumes.

Settings and seed are kept as they are, so that a change can be named; prompts
and weights as digests.  Reward functions are not compared: the stage's key
has their code.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from stylerl.config import PPOConfig

# What may change: they say how far, how often and in what portions.
FREE = ("checkpoint_every", "pass_tokens", "updates")


def identify(
    config: PPOConfig,
    models: Mapping[str, nn.Module | None],
    prompts: list[str],
    **values: Any,
) -> dict[str, Any]:
    """The identity of a run as JSON, by the names that messages use."""
    settings = dataclasses.asdict(config)
    named = {
        **{f"ppo.{k}": v for k, v in settings.items() if k not in FREE},
        **values,
        "the prompts": hashlib.sha256(
            json.dumps(prompts).encode()
        ).hexdigest(),
        **{
            f"the weights of {k}": None if model is None else digest(model)
            for k, model in models.items()
        },
    }
    as_read_back: dict[str, Any] = json.loads(json.dumps(named))
    return as_read_back


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What has changed, in words; empty where nothing has."""
    changes = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old != new:
            shown = f" was {old!r} and is {new!r}"
            changes.append(
                name + (" changed" if name[:4] == "the " else shown)
            )
    return "; ".join(changes)


def digest(model: nn.Module) -> str:
    """The SHA-256 of every weight, with its name and shape."""
    total = hashlib.sha256()
    for name, weight in model.named_parameters():
        total.update(f"{name} {list(weight.shape)}".encode())
        raw = weight.detach().cpu().contiguous().flatten().view(torch.uint8)
        total.update(raw.numpy().tobytes())
    return total.hexdigest()
