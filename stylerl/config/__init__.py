"""Parameters: one frozen dataclass for each stage, checked on entry.

sections.py declares every option with its default and its meaning.
`params.yaml` is rendered from it (files.py), a preset (presets/NAME.yaml)
changes some of its numbers, and each stage receives the dataclass of its own
section, already validated.
"""

from stylerl.config.files import (
    from_preset,
    load,
    override,
    read_yaml,
    render,
)
from stylerl.config.sections import (
    BaseConfig,
    EvaluateConfig,
    FilterConfig,
    JudgeConfig,
    Params,
    PPOConfig,
    RewardConfig,
    SFTConfig,
    SkillConfig,
    presets,
)
from stylerl.config.settings import to_dict

__all__ = [
    "BaseConfig",
    "EvaluateConfig",
    "FilterConfig",
    "JudgeConfig",
    "PPOConfig",
    "Params",
    "RewardConfig",
    "SFTConfig",
    "SkillConfig",
    "from_preset",
    "load",
    "override",
    "presets",
    "read_yaml",
    "render",
    "to_dict",
]
