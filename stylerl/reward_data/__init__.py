"""What the reward models learn from, and what they are measured on.

dataset.py collects it: pairs.py makes pairs of labels, refresh.py reads a
policy's rollouts, preferences.py people's answers; model_metrics.py measures
the trained models rule by rule.
"""
