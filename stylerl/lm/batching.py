"""Texts as batches: token ids of like length, padded on a side."""

from collections.abc import Iterator, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from stylerl.lm.encoding import encode_prompt


def encode_document(
    tokenizer: PreTrainedTokenizerBase, text: str
) -> list[int]:
    """Token ids of a whole text: eos (or bos), the text, eos."""
    ids = encode_prompt(tokenizer, text)
    return [*ids, tokenizer.eos_token_id]


def padded(
    rows: Sequence[Sequence[int]], pad: int, side: str = "right"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, (B, T) each, padded on a side."""
    texts = [torch.tensor(row) for row in rows]
    real = [torch.ones_like(text) for text in texts]
    ids = pad_sequence(texts, True, pad, side)
    return ids, pad_sequence(real, True, 0, side)


def batches_by_length(
    rows: Sequence[Sequence[int]], batch_size: int
) -> Iterator[list[int]]:
    """Indices of `rows` in batches of similar length, the longest first."""
    order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]), i))
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]
