"""The decoding loop on a GPU: one step captured as a CUDA graph, and replayed.

A token of a small model is some five hundred kernels of microseconds each.
Python launches them one by one, and launching takes ten times as long as
computing.  A graph launches them all at once; for that every tensor stays
where it is.  Keys and values have room for the longest response, a mask says
which are seen, and rows that have ended stay in the batch.

Source: PyTorch's notes on CUDA semantics, "CUDA Graphs".

Notation: B rows, S tokens of the longest prompt, R of a response, V
vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from stylerl.lm.attention import attention
from stylerl.lm.steps import Start, choose_tokens, next_logits, until

WARM_UP = 2  # steps before the capture, in which libraries set themselves up
LOOK = 16  # steps between two looks at who has ended: each waits for the GPU


class FixedLayer(DynamicLayer):
    """One layer's keys and values, (B, heads, S + R, D), seen by a mask."""

    def __init__(self, keys: Tensor, values: Tensor, at: Tensor) -> None:
        """`at`, (1,), is the place that the next token takes."""
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.at = at

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Put (B, heads, 1, D) states in their place; return all of them."""
        self.keys.index_copy_(2, self.at, key_states)
        self.values.index_copy_(2, self.at, value_states)
        return self.keys, self.values


def replay(
    lm: PreTrainedModel,
    start: Start,
    noise: Tensor,
    temperatures: Tensor,
    eos: int,
) -> list[list[int]]:
    """Sample until a row draws `eos`, or until `noise` is used up.

    Args:
        lm: a causal language model.
        start: B rows; the keys and values of the prompts are freed.
        noise: (B, R) in [0, 1): what the row's next token is drawn by.
        temperatures: (B,) fp32, that divide the logits; 0 takes the
            likeliest token.
        eos: the id that ends a response, and is its last.
    """
    # 1. What a step reads and writes, each in its place.
    seen, logits, limit = start.seen, start.logits, noise.shape[1]
    count, width = seen.shape
    step = torch.zeros(1, dtype=torch.long, device=lm.device)
    at = step + width
    cache = _with_room(start, limit, at)
    mask = torch.cat([seen, seen.new_zeros(count, limit)], dim=1)
    mask = mask[:, None, None]  # (B, 1, 1, S + R)
    positions = seen.sum(dim=1, keepdim=True)
    drawn = torch.full((count, limit), eos, device=lm.device)

    def advance() -> None:
        """Draw a token of each row, and compute what comes after it."""
        uniforms = noise.index_select(1, step).squeeze(1)
        tokens = choose_tokens(logits, uniforms, temperatures)[:, None]
        drawn.index_copy_(1, step, tokens)
        mask.index_fill_(3, at, True)
        logits.copy_(next_logits(lm, tokens, mask, positions, cache))
        for counter in (step, at, positions):
            counter.add_(1)

    # 2. A token for every row, until all have ended.
    with attention("sdpa", lm):
        again = advance
        for done in range(limit):
            if done == WARM_UP and lm.device.type == "cuda":
                again = captured(advance)
            again()
            so_far = drawn[:, : done + 1]
            if done % LOOK == LOOK - 1 and (so_far == eos).any(1).all():
                break
    return until(so_far, eos)


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The same step as a CUDA graph; capturing it does not run it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def _with_room(start: Start, new: int, at: Tensor) -> Cache:
    """Each row's copy of its prompt's cache, with room for new tokens."""
    layers: list[Any] = []
    while start.prompts.layers:  # one is freed as the next is made
        layer: Any = start.prompts.layers.pop(0)
        keys, values = (
            F.pad(tensor[start.owner], (0, 0, 0, new))
            for tensor in (layer.keys, layer.values)
        )
        layers.append(FixedLayer(keys, values, at))
    return Cache(layers)
