"""Weights, gradients and Adam's moments, cut up among processes.

Fully sharded data parallelism (Zhao et al., arXiv 2304.11277), by torch's
fully_shard: under `accelerate launch --use_fsdp` each process keeps its part
of every tensor, and a block is whole only while it computes.  What is not
sharded passes through every function here as it is.
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
    """Keep this process's part of each weight, in place.

    The optimiser is made afterwards.  Gradients are summed, not averaged,
    over processes: losses are divided by the tokens of all of them.
    """
    blocks = set(policy.model._no_split_modules or ())
    parts = [m for m in policy.modules() if type(m).__name__ in blocks]
    sharded = [fully_shard(part) for part in (*parts, policy)]
    for each in sharded:
        each.set_gradient_divide_factor(1.0)
        each.set_force_sum_reduction_for_comms(True)  # all that gloo has
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    one = torch.ones(1, dtype=torch.long, device=policy.device)
    with torch.no_grad():  # torch takes the first module called for the root
        policy(one.expand(1, 2), one, one, 1.0)
    sharded[-1].reshard()


@contextmanager
def whole(policy: PolicyWithValue) -> Iterator[None]:
    """Inside the block every weight is whole, and no pass is collective.

    Sampling takes more passes in one process than in another.
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
    """The policy as one process would have it; every process asks for it."""
    if not isinstance(policy, FSDPModule):
        return policy
    state = full(policy.state_dict())
    found = policy.unloaded()
    found.load_state_dict(state)
    return found


def load(policy: PolicyWithValue, weights: Mapping[str, Tensor]) -> None:
    """Give the policy these weights, whole and by name; others stay."""
    own = policy.trained()
    state = {name: like(each, own[name]) for name, each in weights.items()}
    policy.load_state_dict(state, strict=False)


def full(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named tensors, whole; every process asks for the same ones."""
    return {
        name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for name, tensor in tensors.items()
    }


def like(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, sharded as `other` is."""
    if not isinstance(other, DTensor):
        return tensor
    device, places = other.device_mesh, other.placements
    return distribute_tensor(tensor.to(other.device), device, places)
