"""What a completion is worth.

scorers.py trains and applies the reward models (what they learn from is in
stylerl/reward_data); composite.py is the reward of PPO, with substance.py and
gaming.py against the ways to game it.
"""
