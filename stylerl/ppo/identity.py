"""What a run is: what a checkpoint must have in common with who resumes it.

Settings and seed are kept as they are, so that a change can be named; prompts
and weights as digests, and the reward function's source where it can be read.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from stylerl.config import PPOConfig
from stylerl.reward.functions import source_digest

# What may change: they say how far, how often and in what portions.
FREE = ("checkpoint_every", "pass_tokens", "updates")
PORTION = 2**20  # words of eight bytes at a time
MIX = (-7046029254386353131, -4417276706812531889)  # odd, of all 64 bits


def identify(
    config: PPOConfig,
    models: Mapping[str, nn.Module | None],
    functions: Mapping[str, Any],
    texts: Mapping[str, list[str]],
    **values: Any,
) -> dict[str, Any]:
    """The identity of a run, as JSON: what is compared, by name."""
    settings = dataclasses.asdict(config)
    found = {
        **{f"ppo.{k}": v for k, v in settings.items() if k not in FREE},
        **values,
        **{f"the {k}": _sha256(json.dumps(v)) for k, v in texts.items()},
        **{
            f"the weights of {k}": None if model is None else digest(model)
            for k, model in models.items()
        },
        **{
            f"the function {k}": source_digest(f) for k, f in functions.items()
        },
    }
    same: dict[str, Any] = json.loads(json.dumps(found))
    return same


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What has changed, in words; empty where nothing has.

    A function whose source could not be read is taken for the same.
    """
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        unread = name.startswith("the function") and None in (old, new)
        if old == new or unread:
            continue
        shown = f" was {old!r} and is {new!r}"
        found.append(name + (" changed" if name[:4] == "the " else shown))
    return "; ".join(found)


@torch.no_grad()
def digest(model: nn.Module) -> str:
    """A digest of every weight, computed where the weights are.

    Only a number for each tensor comes to the host.
    """
    named = dict(model.named_parameters())
    device = next(iter(named.values())).device
    places = torch.arange(PORTION, device=device) * MIX[1]
    sums = [_checksum(weight, places) for weight in named.values()]
    shapes = [[name, list(each.shape)] for name, each in named.items()]
    return _sha256(json.dumps([shapes, torch.stack(sums).tolist()]))


def _checksum(weight: Tensor, places: Tensor) -> Tensor:
    """The sum of all bits, eight bytes at a time, mixed with their places.

    Integers modulo 2^64, so that the order of adding changes nothing.
    """
    flat = weight.detach().flatten()
    missing = -flat.nbytes % 8 // flat.element_size()
    words = torch.cat([flat, flat.new_zeros(missing)]).view(torch.int64)
    total = torch.zeros_like(places[0])
    for part in words.split(PORTION):
        mixed = (part * MIX[0]).add_(places[: len(part)])
        mixed.bitwise_xor_(mixed >> 31).mul_(MIX[0])
        total = total * MIX[0] + mixed.sum()
    return total


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
