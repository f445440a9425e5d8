"""Parameters: one frozen dataclass for each stage, checked on entry.

sections.py declares every option with its default and its meaning.
`params.yaml` is rendered from it (files.py), a preset (presets/NAME.yaml)
changes some of its numbers, and each stage receives the dataclass of its own
section, already validated.
"""

from stylerl.config.files import from_preset as from_preset
from stylerl.config.files import load as load
from stylerl.config.files import override as override
from stylerl.config.files import read_yaml as read_yaml
from stylerl.config.files import render as render
from stylerl.config.sections import BaseConfig as BaseConfig
from stylerl.config.sections import EvaluateConfig as EvaluateConfig
from stylerl.config.sections import FilterConfig as FilterConfig
from stylerl.config.sections import JudgeConfig as JudgeConfig
from stylerl.config.sections import LabelConfig as LabelConfig
from stylerl.config.sections import Params as Params
from stylerl.config.sections import PPOConfig as PPOConfig
from stylerl.config.sections import RewardConfig as RewardConfig
from stylerl.config.sections import SFTConfig as SFTConfig
from stylerl.config.sections import SkillConfig as SkillConfig
from stylerl.config.sections import presets as presets
from stylerl.config.settings import to_dict as to_dict
