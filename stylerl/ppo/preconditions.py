"""What must hold before PPO starts: checked before any time is spent."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import ConfigError
from stylerl.lm.models import vocabulary_size
from stylerl.ppo.policy import PolicyWithValue


def check_kinds(
    config: Any, tokenizer: Any, reward: Any, checkpoints: Path | None
) -> None:
    """Check that each argument of the trainer is of its kind.

    Raises:
        ConfigError: one is not.
    """
    rules = {
        "config": "a PPOConfig, such as params.ppo",
        "tokenizer": "a transformers tokenizer, as load_tokenizer gives it",
        "reward": "a function (prompts, completions) -> numbers",
    }
    given = {"config": config, "tokenizer": tokenizer, "reward": reward}
    fits = {
        "config": isinstance(config, PPOConfig),
        "tokenizer": isinstance(tokenizer, PreTrainedTokenizerBase),
        "reward": callable(reward),
    }
    for name, rule in rules.items():
        if not fits[name]:
            raise ConfigError(
                f"{name} must be {rule}; got a {type(given[name]).__name__}"
            )
    if checkpoints and checkpoints.exists() and not checkpoints.is_dir():
        raise ConfigError(
            f"checkpoints must be a folder; {checkpoints} is none: name "
            "another"
        )


def check(
    config: PPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    validation: Sequence[str],
    *,
    world_size: int,
    credit: bool,
    checkpoints: bool,
) -> None:
    """Check that settings, tokenizer and prompts fit together.

    Args:
        world_size: how many ranks share the work.
        credit: whether a credit function was given.
        checkpoints: whether a folder for checkpoints was given.

    Raises:
        ConfigError: they do not.
    """
    # Every rank needs an episode of each batch, and of each measurement.
    if config.batch_size < world_size:
        raise ConfigError(
            f"ppo.batch_size must be at least the number of ranks, "
            f"{world_size}; got {config.batch_size}"
        )
    measured = config.validate_every > 0 and len(validation) > 0
    if (measured or config.keep == "best") and len(validation) < world_size:
        raise ConfigError(
            "to measure the policy, or to choose by ppo.keep: best, takes "
            f"validation prompts, at least {world_size}; got "
            f"{len(validation)}: give more, or set ppo.keep: last and "
            "ppo.validate_every: 0"
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
            "stylerl.lm.models.load_tokenizer(name), and the model by "
            "load_causal_lm(name, tokenizer=tokenizer)"
        )
    # What a setting promises must have been given to the trainer.
    if config.credit == "token" and not credit:
        raise ConfigError(
            "ppo.credit: token needs a function that assigns rewards to "
            "tokens; give `credit`, or set ppo.credit: response"
        )
    if config.on_alarm == "rollback" and not checkpoints:
        raise ConfigError(
            "ppo.on_alarm: rollback needs checkpoints to go back to; give a "
            "folder"
        )


def check_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Check that a policy or reference is a model of the tokenizer's tokens.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            "policy and reference must be transformers models; got a "
            f"{type(model).__name__}: load a name by "
            "stylerl.lm.models.load_causal_lm, unwrap what is wrapped, and "
            "merge_and_unload peft's (ppo.lora_rank makes new adapters)"
        )
    rows, tokens = vocabulary_size(model), len(tokenizer)
    if tokens > rows:
        raise ConfigError(
            f"every token must have a row of the embedding; the tokenizer "
            f"has {tokens} (pad is {tokenizer.pad_token_id}), "
            f"{type(model).__name__} {rows} rows: call "
            "stylerl.lm.models.fit_to_tokenizer(model, tokenizer)"
        )


def check_trained(config: PPOConfig, policy: PolicyWithValue) -> None:
    """Check that there are weights to train, and those that were promised.

    Raises:
        ConfigError: there are none.
    """
    if all(name.startswith("value_head.") for name in policy.trained()):
        raise ConfigError(
            "the policy must have weights to train; all of them are frozen: "
            "call requires_grad_(True), and give the reference as a model of "
            "its own, not as the policy itself"
        )
    if config.critic != (policy.value_head is not None):
        has = "no" if policy.value_head is None else "a"
        raise ConfigError(
            f"ppo.baseline: {config.baseline} and a policy with {has} value "
            "head do not fit together: give the model itself as the policy, "
            "or take another baseline"
        )
    if not config.critic:
        return
    if config.value == "separate" and policy.value_trunk is None:
        raise ConfigError(
            "ppo.value: separate needs a value model; give "
            "PolicyWithValue(model, critic) as the policy, or set ppo.value: "
            "shared"
        )


def texts(prompts: Iterable[Any], name: str) -> list[str]:
    """The prompts of a list, or of the `prompt` column of a data set.

    Raises:
        ConfigError: they are anything else.
    """
    rule = f"{name} must be texts, or rows with a `prompt` column"
    if isinstance(prompts, pd.DataFrame):
        prompts = prompts.to_dict("records")
    if isinstance(prompts, Mapping):  # such as a DatasetDict
        keys = ", ".join(map(repr, prompts))
        raise ConfigError(
            f"{rule}; got a {type(prompts).__name__} of {keys}: choose one, "
            f"as in {name}=data[{next(iter(prompts), 'train')!r}]"
        )
    if isinstance(prompts, str) or not isinstance(prompts, Iterable):
        raise ConfigError(
            f"{rule}; got one {type(prompts).__name__}: write "
            f"{name}=[{prompts!r}]"
        )
    found: list[str] = []
    for row in prompts:
        text = row.get("prompt") if isinstance(row, Mapping) else row
        if not isinstance(text, str):
            shown = list(row) if isinstance(row, Mapping) else row
            raise ConfigError(
                f"{rule}; row {len(found)} is {shown!r}: give the text of each"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{name} must be valid Unicode; row {len(found)} is {text!r}: "
                "decode its bytes with errors='replace'"
            ) from error
        found.append(text)
    return found
