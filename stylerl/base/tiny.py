"""A toy base model, made in a moment without any download.

Its tokens are bytes and its weights are random: for tests and the smoke
preset, which show that everything runs.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from stylerl.lm import models, saving

PAD, EOS = "<|pad|>", "<|eos|>"
CONTEXT = 1024  # bytes


def write(seed: int, folder: Path) -> None:
    """Fill a folder, which the caller puts into place."""
    tokenizer = new_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=2,
                max_position_embeddings=CONTEXT,
                tie_word_embeddings=True,
            )
        )
    models.fit_to_tokenizer(model, tokenizer)
    saving.write_model(model, tokenizer, folder)


def new_tokenizer() -> PreTrainedTokenizerBase:
    """One token for each byte, after those of padding and end."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: i for i, text in enumerate([PAD, EOS, *letters])}
    backend = Tokenizer(BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=EOS,
        eos_token=EOS,
        pad_token=PAD,
        padding_side="left",
    )
