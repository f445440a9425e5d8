"""What is asked of a run, checked before a server or a stage starts."""

from pathlib import Path

from stylerl.config import Params
from stylerl.errors import DataError, ModelError


def check_files(params: Params) -> str:
    """Check the files that parameters name; the judge's identity.

    Raises:
        ConfigError: the judge's configuration, a plugin or a function of
            the reward is missing.
        DataError: the preferences cannot be read, or are no regular file.
        ModelError: a folder to start from holds no model.
    """
    from stylerl.judge import Judge
    from stylerl.reward import functions
    from stylerl.reward_models import preferences

    judge = Judge(params.judge).identity
    for name in params.ppo.reward:
        if ":" in name:
            functions.load(name)
    answers = Path(params.reward.preferences)
    if answers.exists() and not answers.is_file():
        raise DataError(
            f"reward.preferences must be a regular file; {answers} is none: "
            "name another"
        )
    preferences.load(answers)
    for key, base in (
        ("sft.base", params.sft.base),
        ("reward.base", params.reward.base),
    ):
        made = Path(base).is_relative_to("artifacts")  # by a stage
        if not made and not Path(base, "config.json").is_file():
            raise ModelError(
                f"{key} must be a folder with a model; {base} has no "
                "config.json: fill it, as with `hf download OWNER/NAME "
                f"--local-dir {base}`, or name another"
            )
    return judge
