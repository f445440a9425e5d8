"""Weights, gradients and Adam's moments, sharded across ranks.

Fully sharded data parallelism (Zhao et al., arXiv 2304.11277), by torch's
fully_shard: under `accelerate launch --use_fsdp` each rank keeps its shard
of every tensor, and a block is gathered only while it computes.  Without
sharding every function here returns what it was given.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from stylerl.ppo.policy import PolicyWithValue


def shard(policy: PolicyWithValue) -> None:
    """Keep this rank's shard of each weight, in place.

    The optimiser is made afterwards.  Gradients are summed over ranks, not
    averaged: losses are already divided by the tokens of all ranks.
    """
    blocks = set(policy.model._no_split_modules or ())
    parts = [m for m in policy.modules() if type(m).__name__ in blocks]
    sharded = [fully_shard(part) for part in (*parts, policy)]
    for each in sharded:
        each.set_gradient_divide_factor(1.0)
        each.set_force_sum_reduction_for_comms(True)  # gloo has no other
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    one = torch.ones(1, dtype=torch.long, device=policy.device)
    # torch takes the first module that is called for the root.  That must
    # be the policy, and sampling would call policy.model.
    with torch.no_grad():
        policy(one.expand(1, 2), one, one, 1.0)
    sharded[-1].reshard()


@contextmanager
def unsharded(policy: PolicyWithValue) -> Iterator[None]:
    """Inside the block every rank has all weights; no pass is collective.

    Sampling takes more forward passes on one rank than on another, and a
    collective pass would wait for the others for ever.
    """
    parts = [m for m in policy.modules() if isinstance(m, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(part is not policy, recurse=False)
            part.reshard()


def gathered(policy: PolicyWithValue) -> PolicyWithValue:
    """The policy as a single process has it; every rank calls this."""
    if not isinstance(policy, FSDPModule):
        return policy
    state = full_tensors(policy.state_dict())
    found = policy.unloaded()
    found.load_state_dict(state)
    return found


def load(policy: PolicyWithValue, weights: Mapping[str, Tensor]) -> None:
    """Load full weights by name; those that are not named stay."""
    own = policy.trained()
    state = {
        name: shard_like(each, own[name]) for name, each in weights.items()
    }
    policy.load_state_dict(state, strict=False)


def full_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gather named tensors; every rank asks for the same ones."""
    return {
        name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for name, tensor in tensors.items()
    }


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """A full tensor, sharded as `other` is."""
    if not isinstance(other, DTensor):
        return tensor
    device, places = other.device_mesh, other.placements
    return distribute_tensor(tensor.to(other.device), device, places)
