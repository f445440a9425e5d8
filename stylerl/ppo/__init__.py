"""Proximal policy optimisation of a language model.

factory.py makes a trainer from a model folder and parameters; trainer.py is
the loop, learner.py one update as the textbook's page, and formulas.py its
mathematics; rollouts.py is the data between them, ranks.py the ranks of
`accelerate launch`, health.py the alarms, length_floor.py what is kept.
"""

from stylerl.ppo.factory import build_trainer
from stylerl.ppo.rollouts import Rollouts, SampledRollouts
from stylerl.ppo.trainer import PPOConfig, PPOTrainer, Step
from stylerl.reward.functions import Feedback, by_reward

__all__ = [
    "Feedback",
    "PPOConfig",
    "PPOTrainer",
    "Rollouts",
    "SampledRollouts",
    "Step",
    "build_trainer",
    "by_reward",
]
