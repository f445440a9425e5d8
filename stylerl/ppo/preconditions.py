"""What must hold before PPO begins, said while nothing is lost yet."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import ConfigError


def check(
    config: PPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    validation: Sequence[str],
    *,
    processes: int,
    credit: bool,
    checkpoints: bool,
) -> None:
    """See that settings, tokenizer and prompts fit together.

    Args:
        processes: how many share the work.
        credit: whether a function says where rewards stand.
        checkpoints: whether there is a folder for them.

    Raises:
        ConfigError: they do not.
    """
    if config.batch_size < processes:
        raise ConfigError(
            f"ppo.batch_size must be at least the number of processes, "
            f"{processes}; got {config.batch_size}"
        )
    measured = config.validate_every > 0 and len(validation) > 0
    if (measured or config.keep == "best") and len(validation) < processes:
        raise ConfigError(
            "to measure the policy, or to choose by ppo.keep: best, takes "
            f"validation prompts, at least {processes}; got "
            f"{len(validation)}: give more, or set ppo.keep: last and "
            "ppo.validate_every: 0"
        )
    if not prompts:
        raise ConfigError("there must be at least one prompt; got none")
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        raise ConfigError(
            "the tokenizer's pad token must exist and differ from eos; "
            f"got {tokenizer.pad_token!r}: use "
            "stylerl.lm.models.load_tokenizer"
        )
    if config.credit == "token" and not credit:
        raise ConfigError(
            "ppo.credit: token needs a function that says where; give "
            "`credit`, or set ppo.credit: response"
        )
    if config.on_alarm == "rollback" and not checkpoints:
        raise ConfigError(
            "ppo.on_alarm: rollback needs checkpoints to go back to; give a "
            "folder"
        )
