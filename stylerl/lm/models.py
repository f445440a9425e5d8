"""Language models and scorers, loaded as the other rooms expect them.

Everything is a stock transformers model in one folder (config.json,
model.safetensors, tokenizer.json), loaded without remote code and without
pickle, in fp32, with every dropout off: PPO's ratio is 1 before the first
step only if the same tokens give the same log-probabilities twice.  Four
architectures are tested, each with its own tokenizer: Llama, GPT-2, Qwen2 and
StarCoder2; any decoder whose logits are its output embedding of the last
hidden state works.
"""

import copy
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from stylerl.errors import ModelError
from stylerl.lm.encoding import SPACED, round_trip
from stylerl.lm.pretrained import from_pretrained

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


def load_causal_lm(
    name: str | Path, tokenizer: PreTrainedTokenizerBase | None = None
) -> PreTrainedModel:
    """Load a causal language model in fp32, dropout off, in eval mode.

    With `tokenizer`, the embedding is grown to its length and the config
    takes over its pad and eos ids.

    Raises:
        ModelError: the model cannot be found or loaded, changes its logits
            after the output embedding, or its tokenizer does not give white
            space back.
    """
    model = _load_model(AutoModelForCausalLM, name, attn_implementation="sdpa")
    check_logits(model, name)
    if tokenizer is not None:
        if (back := round_trip(tokenizer)) != SPACED:
            raise ModelError(
                "a tokenizer of code must give white space back; that of "
                f"{name} makes {back!r} of {SPACED!r}: choose a base with a "
                "byte-level BPE"
            )
        fit_to_tokenizer(model, tokenizer)
    return model


def load_scorer(
    name: str | Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
    new_head: bool = False,
) -> PreTrainedModel:
    """Load a sequence classifier with one output, dropout off.

    A `new_head`, of a language model, is drawn from torch's global generator.

    Raises:
        ModelError: the model cannot be found or loaded, or has no head.
    """
    model = _load_model(
        AutoModelForSequenceClassification, name, new_head=new_head
    )
    if tokenizer is not None:
        fit_to_tokenizer(model, tokenizer)
    return model


def fit_to_tokenizer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Give every token an embedding, and the config the tokenizer's ids.

    New rows are the mean of the old ones: unlike transformers' own draw
    they are the same on every run.
    """
    old = vocabulary_size(model)
    if len(tokenizer) > old:
        _untie_what_differs(model)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        embeddings: list[Any] = [
            model.get_input_embeddings(),
            model.get_output_embeddings(),
        ]
        for embedding in embeddings:
            if embedding is not None:
                weight = embedding.weight.data
                weight[old:] = weight[:old].mean(dim=0)
    for config in (model.config, getattr(model, "generation_config", None)):
        if config is not None:
            config.pad_token_id = tokenizer.pad_token_id
            config.eos_token_id = tokenizer.eos_token_id
            config.bos_token_id = tokenizer.bos_token_id


def _untie_what_differs(model: PreTrainedModel) -> None:
    """Untie the output embedding where the file has one of its own.

    transformers loads such a head, and replaces it by the embedding when
    either is resized.
    """
    one: Any = model.get_input_embeddings()
    other: Any = model.get_output_embeddings()
    if other is not None and one.weight is not other.weight:
        model.config.tie_word_embeddings = False


def bf16_copy(model: PreTrainedModel) -> PreTrainedModel:
    """A copy to sample from, whose weights are bfloat16.

    No copy in fp32 is made on the way.  Buffers keep their type, as
    `from_pretrained` has it: rotary frequencies that were rounded to bf16
    would turn by another angle, the more the longer the text.
    """
    cast = {
        id(weight): nn.Parameter(weight.detach().bfloat16(), False)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, cast)  # the copies are what is found there


def cast_weights(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Change the type of every weight, in place; buffers keep theirs."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def positions(name: str | Path) -> int:
    """How many tokens a model can hold (`context_limit`).

    Raises:
        ModelError: it cannot be found.
    """
    return context_limit(from_pretrained(AutoConfig, name))


def context_limit(config: PreTrainedConfig) -> int:
    """Tokens of a text: a model's positions, or its attention's window;
    sys.maxsize where it has neither.

    Beyond the window a token would not see all that is before it, which
    neither sampler nor trainer computes.
    """
    limits = [getattr(config, "max_position_embeddings", None)]
    if getattr(config, "use_sliding_window", True):
        limits.append(getattr(config, "sliding_window", None))
    return min(filter(None, limits), default=sys.maxsize)


def vocabulary_size(model: PreTrainedModel) -> int:
    """Rows of the input embedding."""
    embedding: Any = model.get_input_embeddings()
    return embedding.weight.shape[0]


def disable_dropout(config: PreTrainedConfig) -> None:
    """Set every dropout probability of a config to zero."""
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)


def _load_model(
    factory: Any, name: str | Path, new_head: bool = False, **options: Any
) -> PreTrainedModel:
    """Load a model by its Auto class: fp32, safetensors, no dropout.

    A weight that the file lacks is an error, but for those of a new head.
    """
    whole = factory is AutoModelForCausalLM
    shape = {} if whole else {"num_labels": 1}
    config = from_pretrained(AutoConfig, name, **shape)
    disable_dropout(config)
    config.return_dict = True
    if whole:  # how we sample is ours to say: the file is not read
        options["generation_config"] = GenerationConfig()
    model, report = from_pretrained(
        factory,
        name,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    trunk = f"{model.base_model_prefix}."
    missing = {
        key
        for key in report["missing_keys"]
        if not new_head or key.startswith(trunk)
    }
    others = {
        key
        for key in report["unexpected_keys"]
        if key.startswith(trunk) and key.endswith(".weight")
    }
    if wrong := missing | others:
        raise ModelError(
            f"{name} must hold the weights of {type(model).__name__} as its "
            f"config.json describes it; {len(wrong)} are missing or others, "
            f"such as {min(wrong)}"
        )
    check_finite(model, name)
    return model.eval()


def check_finite(model: PreTrainedModel, source: str | Path = "") -> None:
    """Check the weights of a model, from a source that errors name.

    Raises:
        ModelError: one is NaN or infinite.
    """
    source = source or type(model).__name__
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise ModelError(
                f"weights must be finite; those of {source} hold NaN or "
                f"infinity, in {name}: load it again, in fp32 or bf16, or run "
                "the stage that writes it again"
            )


def check_logits(model: PreTrainedModel, source: str | Path = "") -> None:
    """Check that logits are the output embedding of the last states.

    Sampling and scoring compute them so, where they are needed; some
    families scale or cap them on top.  Between the tokens nothing but keys
    and values is kept, so that layers of attention alone will do.

    Raises:
        ModelError: the model does otherwise.
    """
    text = model.config.get_text_config()
    others = sorted({*(getattr(text, "layer_types", None) or ())} - ATTENTION)
    if getattr(model, "_is_stateful", False):
        others.append("a state of its own")
    for name in ("logits_scaling", "logit_scale", "final_logit_softcapping"):
        if (value := getattr(model.config, name, None)) not in (None, 1):
            others.append(f"{name}: {value}")
    if others:
        raise ModelError(
            "every layer must be one of attention, and logits the output "
            "embedding of the last states; "
            f"{source or type(model).__name__} has {', '.join(others)}: "
            "choose a Llama, GPT-2, Qwen2 or StarCoder2 model"
        )
