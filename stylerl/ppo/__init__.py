"""Proximal policy optimisation of a language model.

factory.py makes a trainer from a model folder and parameters; trainer.py is
the loop, sampler.py its episodes, learner.py one update as the textbook's
page, and formulas.py its mathematics; rollouts.py is the data between them,
token_rewards.py what single tokens are charged, length.py what of it would
press on lengths, ranks.py the ranks of `accelerate launch`, health.py the
alarms.
"""

from stylerl.config import PPOConfig
from stylerl.ppo.factory import build_trainer
from stylerl.ppo.trainer import PPOTrainer, Step
from stylerl.reward.functions import by_reward

__all__ = ["PPOConfig", "PPOTrainer", "Step", "build_trainer", "by_reward"]
