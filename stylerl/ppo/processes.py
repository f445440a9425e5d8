"""Several processes, one update: what each does alone, and what they share.

Under `accelerate launch` every process samples and scores its share of the
episodes; then all of them know all rollouts, compute the same advantages,
and add up the gradients of their shares of each minibatch.  Losses are
divided by the tokens of the whole minibatch before, so that one process or
two take the same step.  Started without a launcher there is one process, and
nothing is sent.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")


class Processes:
    """This process among all; `index` 0 is the main one.

    `sharded` says whether weights are cut up among them (sharding.py).
    """

    def __init__(self) -> None:
        """Join the others, if a launcher has started any."""
        self.count, self.index, self.sharded = 1, 0, False
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if cuda else "cpu")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState
            from accelerate.utils import parse_flag_from_env

            state = PartialState(cpu=not cuda)
            self.count, self.index = state.num_processes, state.process_index
            self.device = state.device
            self.sharded = parse_flag_from_env("ACCELERATE_USE_FSDP")

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and shows."""
        return self.index == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """The items that are this process's: every `count`-th."""
        return items[self.index :: self.count]

    def gather(self, mine: Any) -> list[Any]:
        """One object of each process, in their order, on every process."""
        if self.count == 1:
            return [mine]
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, mine)
        return found

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give every process the sum of all processes' gradients.

        One that had no share of the minibatch has none and adds zeros; a
        parameter that nobody has a gradient for keeps none.
        """
        if self.count == 1 or self.sharded:  # then torch has added them
            return
        parameters = list(parameters)
        here = [p.grad is not None for p in parameters]
        anywhere = [any(each) for each in zip(*self.gather(here), strict=True)]
        for parameter, known in zip(parameters, anywhere, strict=True):
            if not known:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)

    def wait(self) -> None:
        """Go on when every process has come here."""
        if self.count > 1:
            distributed.barrier()
