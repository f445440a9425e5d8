"""Random draws as functions of a seed and a place, without state.

What was drawn in update 7 is the same whether updates 1 to 6 ran in this
process, in one that was killed, or not at all.
"""

import hashlib

import torch
from torch import Tensor


def seed_of(*place: int | str) -> int:
    """A 63-bit seed for a place such as `(seed, update, "sample")`."""
    text = ":".join(str(part) for part in place)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(*place: int | str) -> torch.Generator:
    """A CPU generator for a place."""
    return torch.Generator().manual_seed(seed_of(*place))


def permutation(count: int, *place: int | str) -> Tensor:
    """The numbers 0 to count - 1, shuffled, (count,)."""
    return torch.randperm(count, generator=generator(*place))


def positions(start: int, count: int, size: int, seed: int) -> list[int]:
    """Places start .. start + count - 1 of an endless shuffled reading.

    `size` items are read over and over, each pass in an order of its own;
    within a pass no item comes twice.
    """
    drawn = []
    while count > 0:
        turn, first = divmod(start, size)
        order = permutation(size, seed, "pass", turn).tolist()
        taken = order[first : first + count]
        drawn += taken
        start, count = start + len(taken), count - len(taken)
    return drawn
