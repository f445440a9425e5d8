"""The files that a run needs, checked before a server or a stage starts."""

from pathlib import Path

from stylerl.config import Params, paths
from stylerl.errors import ModelError


def check_files(params: Params) -> str:
    """Check the files that parameters name; the judge's identity.

    Raises:
        ConfigError: the judge's configuration, a plugin or a function of
            the reward is missing.
        DataError: the preferences cannot be read.
        ModelError: a folder to start from holds no model.
    """
    from stylerl.judge import Judge
    from stylerl.pipeline import fingerprints
    from stylerl.reward_models import preferences

    judge: str = fingerprints.digests(params)["judge.json"]["judge"]
    preferences.load(preferences.FILE)
    for key, base in (
        ("sft.base", params.sft.base),
        ("reward.base", params.reward.base),
    ):
        made = Path(base) in (paths.BASE, paths.SFT)  # by a stage
        if not made and not Path(base, "config.json").is_file():
            raise ModelError(
                f"{key} must be a folder with a model; {base} has no "
                "config.json: fill it, as with `hf download OWNER/NAME "
                f"--local-dir {base}`, or name another; the hub's name of a "
                "model goes into base.model"
            )
    Judge(params.judge).verdict("")  # which refuses rules that are none
    return judge
