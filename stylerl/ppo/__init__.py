"""Proximal policy optimisation of a language model.

trainer.py reads as the textbook's page, formulas.py holds its mathematics;
rollouts.py what flows between them, health.py the alarms, checkpoint.py the
exact resume.
"""

from stylerl.ppo.rollouts import Rollouts
from stylerl.ppo.trainer import PPOConfig, PPOTrainer, Step

__all__ = ["PPOConfig", "PPOTrainer", "Rollouts", "Step"]
