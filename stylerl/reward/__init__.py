"""What a completion is worth.

scorers.py applies the reward models (stylerl/reward_models trains them);
grade.py grades a completion once; grader.py makes the reward of PPO of grades;
gaming.py are the numbers that expose a gamed one; other_trainers.py is that
reward as the trainers of others take it: `trl_reward`.
"""

from typing import Any

__all__ = ["trl_reward"]


def __getattr__(name: str) -> Any:
    """What takes torch is imported where it is asked for."""
    if name != "trl_reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stylerl.reward.other_trainers import trl_reward

    return trl_reward
