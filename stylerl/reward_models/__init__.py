"""The reward models: what they learn from, their training, their measure.

dataset.py collects it: pairs.py makes pairs of labels, preferences.py reads
people's answers; scorer_training.py trains both models, model_metrics.py
measures them rule by rule.
"""
