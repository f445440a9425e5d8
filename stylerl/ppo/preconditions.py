"""Checks before PPO starts, so that a mistake costs no time."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import ConfigError
from stylerl.lm.models import check_finite, check_logits, vocabulary_size
from stylerl.ppo.policy import PolicyWithValue


def check_kinds(config: Any, tokenizer: Any, seed: Any) -> None:
    """Check the types of the trainer's arguments.

    Raises:
        ConfigError: one is not.
    """
    if not isinstance(config, PPOConfig):
        raise ConfigError(
            "config must be a PPOConfig, such as params.ppo; got a "
            f"{type(config).__name__}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ConfigError(
            "tokenizer must be a transformers tokenizer, as load_tokenizer "
            f"gives it; got a {type(tokenizer).__name__}"
        )
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise ConfigError(
            f"seed must be an int of 0 to 4294967295; got {seed!r}"
        )


def check_torch() -> None:
    """Check torch's global settings, which other code may have changed.

    Raises:
        ConfigError: nothing could be learnt, or not in fp32.
    """
    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise ConfigError(
            f"torch's default dtype must be float32; it is {dtype}: "
            "torch.set_default_dtype(torch.float32)"
        )
    device = torch.get_default_device().type
    if device == "meta":
        raise ConfigError(
            "torch's default device must hold numbers; it is meta: "
            "torch.set_default_device(None)"
        )
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        raise ConfigError(
            "ppo.precision says what is cast; torch.autocast is on: make and "
            "run the trainer outside of it"
        )
    if not torch.is_grad_enabled():
        raise ConfigError(
            "training needs gradients; torch.no_grad or inference_mode is "
            "on: make and run the trainer outside of it"
        )


def folder(path: str | Path | None) -> Path | None:
    """Make the folder of checkpoints.

    Raises:
        ConfigError: it cannot be.
    """
    if path is None:
        return None
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(
            "checkpoints must be a folder that can be made; got "
            f"{str(path)!r} ({error}): name another"
        ) from error
    return Path(path)


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
    if any(weight.is_inference() for weight in model.parameters()):
        raise ConfigError(
            "policy and reference must be loaded outside of "
            f"torch.inference_mode; {kind} was not: load it again"
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


def check_trained(policy: PolicyWithValue) -> None:
    """Check that there are weights to train.

    Raises:
        ConfigError: there are none.
    """
    if all(name.startswith("value_head.") for name in policy.trained()):
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
    if isinstance(prompts, Mapping):  # such as a DatasetDict
        keys = ", ".join(map(repr, prompts))
        raise ConfigError(
            f"{rule}; got a {type(prompts).__name__} of {keys}: choose one, "
            f"as in prompts=data[{next(iter(prompts), 'train')!r}]"
        )
    if isinstance(prompts, str):
        raise ConfigError(f"{rule}; got one str: write prompts=[{prompts!r}]")
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise ConfigError(
            f"{rule}; got one {type(prompts).__name__}: give a list of texts"
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
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"prompts must be valid Unicode; row {len(checked)} is "
                f"{text!r}: decode its bytes with errors='replace'"
            ) from error
        checked.append(text)
    return checked
