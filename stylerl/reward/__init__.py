"""What a completion is worth.

scorers.py trains and applies the reward models, metrics.py measures them
rule by rule, pairs.py makes what they learn from; composite.py is the reward
of PPO, with substance.py and guards.py against the ways to game it.
"""
