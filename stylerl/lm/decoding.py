"""The decoding loop: a token for each row of a batch, until all have ended.

A prompt that several rows complete is computed once.  Prompts are left-padded,
position ids are counted over real tokens, finished rows leave the batch.  Each
row draws from a random stream of its own.  A GPU has a loop of its own, in
replay.py.

Notation: B sequences, R tokens of a response, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from stylerl.lm.attention import decoding_attention
from stylerl.lm.replay import replay
from stylerl.lm.steps import (
    choose_tokens,
    next_logits,
    read_prompts,
    until,
)

Listener = Callable[[list[list[int]]], None]  # of the responses so far


class PreallocatedLayer(DynamicLayer):
    """One layer's keys and values, in a buffer made once.

    transformers' own layer concatenates, which copies the whole cache at
    every token.  Keys are kept as columns, (B, heads, D, capacity), as
    `one_query_attention` multiplies by them.  Rows that leave are
    overwritten by rows from the end.
    """

    def __init__(self, capacity: int) -> None:
        """Room for `capacity` tokens."""
        super().__init__()
        self.capacity = capacity
        self.used = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append (B, heads, new, D) states; return all of them."""
        b, heads, new, d = key_states.shape
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.columns = key_states.new_empty(b, heads, d, self.capacity)
            self.rows = value_states.new_empty(b, heads, self.capacity, d)
        end = self.used + new
        self.columns[..., self.used : end] = key_states.transpose(2, 3)
        self.rows[:, :, self.used : end] = value_states
        self.used = end
        self.keys = self.columns[..., :end].transpose(2, 3)
        self.values = self.rows[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows, in this order."""
        count, end = len(indices), self.used
        stay = torch.arange(count, device=indices.device)
        moved = (indices != stay).nonzero().flatten()
        taken = indices[moved]
        self.columns[moved, ..., :end] = self.columns[taken, ..., :end]
        self.rows[moved, :, :end] = self.rows[taken, :, :end]
        self.columns, self.rows = self.columns[:count], self.rows[:count]


@torch.inference_mode()
def decode_batch(
    lm: PreTrainedModel,
    prompts: list[list[int]],
    noise: Tensor,
    temperatures: Tensor,
    pad: int,
    eos: int,
    listen: Listener | None = None,
    ends: Callable[[list[int]], bool] | None = None,
) -> list[list[int]]:
    """Sample until a row draws `eos`, or until `noise` is used up.

    Args:
        lm: a causal language model.
        prompts: B rows of token ids.
        noise: (B, R) in [0, 1): what the row's next token is drawn by.
        temperatures: (B,) fp32, that divide the logits; 0 takes the
            likeliest token.
        pad: the id that fills the shorter prompts up.
        eos: the id that ends a response, and is its last.
        listen: told after each step what the rows have drawn; a GPU draws
            all before it tells.
        ends: whether a response needs no more tokens; a GPU does not ask.
    """
    start = read_prompts(lm, prompts, pad)
    noise, temperatures = noise.to(lm.device), temperatures.to(lm.device)
    if lm.device.type == "cuda":
        responses = replay(lm, start, noise, temperatures, eos)
        if listen:
            listen(responses)
        return responses
    # 1. Each row's copy of its prompt's cache, with room for a response.
    logits, mask, limit = start.logits, start.seen, noise.shape[1]
    width, lengths = mask.shape[1], mask.sum(dim=1)
    padded = not bool(mask.all())
    cache = _copied(start.prompts, start.owner, width + limit)
    mask = torch.cat([mask, mask.new_ones(len(prompts), limit)], dim=1)
    drawn = torch.full((len(prompts), limit), eos)
    rows = torch.arange(len(prompts))  # the row that stands at each place
    live = torch.ones(len(prompts), dtype=torch.bool)
    with decoding_attention(lm):
        # 2. A token for every live row, until all have ended.
        for step in range(limit):
            tokens = choose_tokens(logits, noise[:, step], temperatures)
            drawn[rows[live], step] = tokens[live]
            live &= tokens != eos
            if ends:
                for place in live.nonzero().flatten():
                    written = drawn[rows[place], : step + 1].tolist()
                    live[place] = not ends(written)
            if listen:
                listen(until(drawn[:, : step + 1], eos))
            if step + 1 == limit or not live.any():
                break
            # 3. Rows that have ended leave once they are a tenth of the
            # batch; the others see one new token.
            if int(live.sum()) <= 0.9 * len(live):
                keep = fill_holes(live)
                cache.batch_select_indices(keep)
                rows, live, tokens, mask, lengths, noise, temperatures = (
                    state[keep]
                    for state in (
                        *(rows, live, tokens, mask, lengths, noise),
                        temperatures,
                    )
                )
            seen = mask[:, : width + step + 1] if padded else None
            positions = lengths[:, None] + step
            logits = next_logits(lm, tokens[:, None], seen, positions, cache)
    return until(drawn, eos)


def _copied(once: Cache, owner: Tensor, capacity: int) -> Cache:
    """A cache with each row's copy of its prompt's keys and values."""
    layers: list[Any] = []
    while once.layers:  # one is freed as the next is made
        layer: Any = once.layers.pop(0)
        room = PreallocatedLayer(capacity)
        room.update(layer.keys[owner], layer.values[owner])
        layers.append(room)
    return Cache(layers)


def fill_holes(live: Tensor) -> Tensor:
    """An order of the live rows that moves few of them, (n,) of (B,).

    Rows from the end take the places of those that have ended.
    """
    count = int(live.sum())
    order = torch.arange(count)
    order[~live[:count]] = live[count:].nonzero().flatten() + count
    return order
