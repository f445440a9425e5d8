"""Proximal policy optimisation of a language model.

factory.py gets from a model folder and parameters to a trainer;
trainer.py is the loop, learner.py one update as the textbook's page, and
formulas.py its mathematics; rollouts.py is what flows between them,
processes.py the ranks of `accelerate launch`, health.py the alarms.
"""

from stylerl.ppo.factory import build_trainer
from stylerl.ppo.rollouts import Rollouts
from stylerl.ppo.trainer import PPOConfig, PPOTrainer, Step

__all__ = ["PPOConfig", "PPOTrainer", "Rollouts", "Step", "build_trainer"]
