"""Checks before PPO starts, so that a mistake costs no time."""

from collections.abc import Iterable, Mapping, Sequence
from types import MethodType
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import ConfigError
from stylerl.lm.models import check_finite, check_logits, vocabulary_size
from stylerl.ppo.policy import Policy


def check(
    config: PPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    world_size: int,
) -> None:
    """Check that settings, tokenizer and prompts fit together.

    Args:
        world_size: how many ranks share the work.

    Raises:
        ConfigError: they do not.
    """
    # Every rank needs an episode of each batch.
    if config.batch_size < world_size:
        raise ConfigError(
            f"ppo.batch_size must be at least the number of ranks, "
            f"{world_size}; got {config.batch_size}"
        )
    if not prompts:
        raise ConfigError("there must be at least one prompt; got none")
    if tokenizer.eos_token_id is None:
        raise ConfigError(
            "the tokenizer must have an eos token, which ends a completion; "
            "it has none: set tokenizer.eos_token"
        )
    # Where pad is eos, the end of a response would be masked as padding.
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        raise ConfigError(
            "the tokenizer's pad token must exist and differ from eos; "
            f"got {tokenizer.pad_token!r}: load it by "
            "stylerl.lm.encoding.load_tokenizer(name), and the model by "
            "load_causal_lm(name, tokenizer=tokenizer)"
        )


def check_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Check that a policy or reference is a model of the tokenizer's tokens.

    Raises:
        ConfigError: it is not.
        ModelError: its weights are not finite, or it changes its logits.
    """
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            "policy and reference must be transformers models; got a "
            f"{type(model).__name__}: load a name by "
            "stylerl.lm.models.load_causal_lm, unwrap what is wrapped, and "
            "merge_and_unload peft's (ppo.lora_rank makes new adapters)"
        )
    kind = type(model).__name__
    if (
        model.get_output_embeddings() is None
        or model.config.is_encoder_decoder
        or not model.can_generate()
    ):
        raise ConfigError(
            f"policy and reference must be causal language models; {kind} is "
            "none: load it by stylerl.lm.models.load_causal_lm"
        )
    if any(w.is_meta or not w.is_floating_point() for w in model.parameters()):
        raise ConfigError(
            f"the weights of policy and reference must be loaded, as floating-"
            f"point numbers; those of {kind} are on the meta device, or "
            "quantised: load it by stylerl.lm.models.load_causal_lm"
        )
    if any(_is_replaced(module) for module in model.modules()):
        raise ConfigError(
            f"a module of policy and reference must have its class's forward; "
            f"one of {kind} has another, as of torch.compile or a hook: a "
            "copy would go on calling the first model's; unwrap it"
        )
    check_finite(model)
    check_logits(model)
    rows, tokens = vocabulary_size(model), len(tokenizer)
    if tokens > rows:
        raise ConfigError(
            f"every token must have a row of the embedding; the tokenizer "
            f"has {tokens} (pad is {tokenizer.pad_token_id}), "
            f"{kind} {rows} rows: call "
            "stylerl.lm.models.fit_to_tokenizer(model, tokenizer)"
        )


def _is_replaced(module: torch.nn.Module) -> bool:
    """Whether an instance has a forward that is no method of its own."""
    forward = vars(module).get("forward")
    return forward is not None and not isinstance(forward, MethodType)


def check_reference(
    policy: PreTrainedModel, reference: PreTrainedModel | None
) -> None:
    """Check that a reference stays where it is while the policy learns.

    Raises:
        ConfigError: they share weights.
    """
    if reference is None:
        return
    held = {weight.data_ptr() for weight in policy.parameters()}
    if any(weight.data_ptr() in held for weight in reference.parameters()):
        raise ConfigError(
            "the reference must be a model of its own; it shares weights with "
            "the policy: load it again, or give none, which takes a copy"
        )


def check_trained(policy: Policy) -> None:
    """Check that there are weights to train.

    Raises:
        ConfigError: there are none.
    """
    if not policy.trained():
        raise ConfigError(
            "the policy must have weights to train; all of them are frozen: "
            "call requires_grad_(True), and give the reference as a model of "
            "its own, not as the policy itself"
        )


def texts(prompts: Iterable[Any]) -> list[str]:
    """The prompts of a list, or of the `prompt` column of a data set.

    Raises:
        ConfigError: they are anything else.
    """
    rule = "prompts must be texts, or rows with a `prompt` column"
    if isinstance(prompts, pd.DataFrame):
        prompts = prompts.to_dict("records")
    # A dict is not one data set, but several by name.
    if isinstance(prompts, (str, bytes, Mapping)):
        raise ConfigError(
            f"{rule}; got one {type(prompts).__name__}: give a list of "
            "texts, or one data set"
        )
    checked: list[str] = []
    for row in prompts:
        text = row.get("prompt") if isinstance(row, Mapping) else row
        if not isinstance(text, str):
            shown = list(row) if isinstance(row, Mapping) else row
            raise ConfigError(
                f"{rule}; row {len(checked)} is {shown!r}: give the text of "
                "each"
            )
        checked.append(text)
    return checked
