"""A model folder from a GGUF file: quantised weights, back as bfloat16.

transformers reads the file, with the package `gguf`, and what it takes over
is not yet a model to train.  It keeps the quantisation in the config, so that
the model cannot be saved; and the tokenizer lacks what GGUF only names: that
SmolLM2 splits digits before all else, so that `    12` has the tokens of four
spaces, of 1 and of 2.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from stylerl.lm import models, pretrained, saving

# SmolLM2's end of a text is its padding too, and it could not learn to end;
# of the tokens that it has for notebooks, none stands in Python code.
PAD_TOKEN = "<empty_output>"


def write(file: Path, folder: Path) -> None:
    """Fill a folder, which the caller puts into place, from a GGUF file."""
    tokenizer = load_tokenizer(file)
    model = load_model(file)
    models.fit_to_tokenizer(model, tokenizer)
    models.cast_weights(model, torch.bfloat16)
    saving.write_model(model, tokenizer, folder)


def load_tokenizer(file: Path) -> PreTrainedTokenizerBase:
    """The file's byte-level BPE, its digits split, without a chat template."""
    tokenizer: Any = AutoTokenizer.from_pretrained(
        file.parent, gguf_file=file.name
    )
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        pad_token=PAD_TOKEN,
        padding_side="left",
    )


def load_model(file: Path) -> PreTrainedModel:
    """The file's weights in fp32, in a model that was never quantised."""
    with pretrained.quiet():
        quantised = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32
        )
    config = type(quantised.config).from_dict(
        {
            key: value
            for key, value in quantised.config.to_dict().items()
            if key not in ("quantization_config", "_model_name_or_path")
        }
    )
    model: PreTrainedModel = type(quantised)(config)
    model.load_state_dict(quantised.state_dict())
    return model.eval()
