"""Texts as batches: whole documents as token ids, padded on the right."""

from collections.abc import Iterator, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.lm.encoding import encode_prompt
from stylerl.lm.models import context_limit


def encode_document(
    tokenizer: PreTrainedTokenizerBase, text: str
) -> list[int]:
    """Token ids of a whole text: eos (or bos), the text, eos."""
    ids = encode_prompt(tokenizer, text)
    return [*ids, tokenizer.eos_token_id]


def token_limit(model: PreTrainedModel, limit: int) -> int:
    """`limit`, or the model's own context where that is shorter."""
    return min(limit, context_limit(model.config) or limit)


def pad_right(
    rows: Sequence[Sequence[int]], pad_token_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (B, T), padded after the text."""
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad_token_id)  # (B, T)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return ids, mask


def batches_by_length(
    rows: Sequence[Sequence[int]], batch_size: int
) -> Iterator[list[int]]:
    """Indices of `rows` in batches of similar length, the longest first."""
    order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]), i))
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]
