"""The ranks of a run under `accelerate launch`.

Under `accelerate launch` every rank samples and scores its share of the
episodes; then all of them know all rollouts, compute the same advantages,
and add up the gradients of their shares of each minibatch.  A loss is
divided by the tokens of the whole minibatch before that, so that one rank or
two take the same step.  Without a launcher there is one rank, and nothing
is sent.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from stylerl.errors import ConfigError

MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
T = TypeVar("T")


class Ranks:
    """This process's `rank` among `world_size`; rank 0 is the main one."""

    def __init__(self) -> None:
        """Join the other ranks, if a launcher has started any.

        Raises:
            ConfigError: several were asked for, and this one stands alone.
        """
        self.world_size, self.rank = 1, 0
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if cuda else "cpu")
        _check_launcher(os.environ)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState

            state = PartialState(cpu=not cuda)
            self.world_size = state.num_processes
            self.rank = state.process_index
            self.device = state.device

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files and shows progress."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """The items of this rank: every `world_size`-th."""
        return items[self.rank :: self.world_size]

    def gather(self, mine: Any) -> list[Any]:
        """One object from each rank, in their order, on every rank."""
        if self.world_size == 1:
            return [mine]
        gathered: list[Any] = [None] * self.world_size
        distributed.all_gather_object(gathered, mine)
        return gathered

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give every rank the sum of all ranks' gradients of what is trained.

        A rank without a share of the minibatch has none, and adds zeros.
        """
        if self.world_size == 1:
            return
        for parameter in parameters:
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                distributed.all_reduce(parameter.grad)

    def wait(self) -> None:
        """Return when every rank has called this."""
        if self.world_size > 1:
            distributed.barrier()


def _check_launcher(environment: Mapping[str, str]) -> None:
    """Refuse a launcher whose processes cannot find each other.

    On a CPU accelerate's own launcher leaves it to mpirun to start several,
    and starts one, for which it has set an address to meet at.
    """
    accelerate = {"ACCELERATE_MIXED_PRECISION", "MASTER_ADDR"}
    several = accelerate <= {*environment} or any(
        int(environment.get(name, 1)) > 1 for name in MPI_SIZES
    )
    if several and "WORLD_SIZE" not in environment:
        raise ConfigError(
            "several processes must be started so that they find each other; "
            "this one was not (accelerate's launcher for a CPU starts one, "
            "and mpirun's are not joined): use accelerate launch --multi_gpu "
            "--num_processes N, which needs no GPU"
        )
