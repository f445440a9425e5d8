"""What a completion is worth.

scorers.py applies the reward models (stylerl/reward_models trains them);
grade.py grades a completion once; grader.py makes the reward of PPO of grades;
gaming.py are the numbers that expose a gamed one; other_trainers.py is that
reward as the trainers of others take it: `TextReward`.
"""
