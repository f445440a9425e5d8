"""What must hold before PPO starts: checked before any time is spent."""

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
    # Where pad is eos, the end of a response would be masked as padding.
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        raise ConfigError(
            "the tokenizer's pad token must exist and differ from eos; "
            f"got {tokenizer.pad_token!r}: use "
            "stylerl.lm.models.load_tokenizer"
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
