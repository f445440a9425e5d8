"""The steps of decoding: prompts are read, a token is drawn, logits follow.

Notation: B sequences, S tokens of the longest prompt, R of a response, V
vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

from stylerl.draws import generator
from stylerl.lm.batching import padded

BLOCK = 256  # tokens whose probabilities are summed at once


class Start(NamedTuple):
    """The state before the first new token: prompts, each computed once."""

    prompts: Cache  # keys and values of each, S tokens
    owner: Tensor  # (B,), which of them a row completes
    seen: Tensor  # (B, S), which tokens of it are real
    logits: Tensor  # (B, V), after it


def read_prompts(
    lm: PreTrainedModel, prompts: list[list[int]], pad: int
) -> Start:
    """Compute prompts, however many rows complete each, left-padded."""
    unique = list(dict.fromkeys(map(tuple, prompts)))
    rows = {prompt: row for row, prompt in enumerate(unique)}
    owner = torch.tensor([rows[tuple(prompt)] for prompt in prompts])
    ids, mask = padded(unique, pad, "left")
    mask = mask.bool()
    even = bool(mask.all())
    ids, mask, owner = (x.to(lm.device) for x in (ids, mask, owner))
    positions = (torch.cumsum(mask, dim=1) - 1).clamp(min=0)
    cache = DynamicCache(config=lm.config)
    logits = next_logits(lm, ids, None if even else mask, positions, cache)
    return Start(cache, owner, mask[owner], logits[owner])


def next_logits(
    lm: PreTrainedModel,
    ids: Tensor,
    mask: Tensor | None,
    positions: Tensor,
    cache: Cache,
) -> Tensor:
    """The logits after some new tokens, (B, new) -> (B, V).

    The output embedding is given the last states as a matrix: of a slice of
    three dimensions, torch copies its weights for every row.
    """
    states = lm.base_model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state[:, -1]
    output: Any = lm.get_output_embeddings()
    return output(states)


def choose_tokens(
    logits: Tensor, noise: Tensor, temperatures: Tensor
) -> Tensor:
    """Invert the cumulative distribution at `noise`.

    First the block of tokens, then the token in it.  Sums are float64: a
    vocabulary's in fp32 is off by more than the smallest probabilities.
    (B, V), (B,), (B,) -> (B,); temperature 0 takes the likeliest token.
    """
    greedy = temperatures == 0
    # 1. e^z in blocks, (B, N, BLOCK), and the mass up to each block's end.
    z = logits.float() / temperatures.masked_fill(greedy, 1)[:, None]
    z -= z.amax(dim=-1, keepdim=True)
    missing = -z.shape[-1] % BLOCK
    blocks = F.pad(z.exp_(), (0, missing)).unflatten(-1, (-1, BLOCK))
    ends = blocks.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    at = noise.double()[:, None] * ends[:, -1:]
    block = torch.searchsorted(ends, at, right=True)
    block = block.clamp(max=ends.shape[-1] - 1)
    # 2. The token of that block, by what is left of the mass.
    inside = blocks.take_along_dim(block[..., None], dim=1).squeeze(1)
    mass = inside.double().cumsum(dim=-1)
    at = at - (ends.take_along_dim(block, dim=1) - mass[:, -1:])
    token = torch.searchsorted(mass, at.clamp(min=0), right=True)
    token = block * BLOCK + token.clamp(max=BLOCK - 1)
    token = token.squeeze(-1).clamp(max=logits.shape[-1] - 1)
    return logits.argmax(dim=-1).where(greedy, token)


def until(drawn: Tensor, eos: int) -> list[list[int]]:
    """Each row, of (B, R), up to its first `eos`."""
    return [
        row[: row.index(eos) + 1] if eos in row else row
        for row in drawn.tolist()
    ]


def draw_uniforms(seed: int, rows: Sequence[int], count: int) -> Tensor:
    """Numbers in [0, 1), (B, count): row i's depend on (seed, i) alone."""
    return torch.stack(
        [
            torch.rand(
                count, generator=generator(seed, row), dtype=torch.float64
            )
            for row in rows
        ]
    )
