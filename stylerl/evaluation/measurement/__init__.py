"""Metrics on prompts that no training saw.

evaluation.py tells the story in four phases; heldout.py draws the prompts,
generations.py samples, baselines.py adds other ways to the same end,
verdicts.py judges, metrics.py measures, with bootstrap.py's intervals.
"""
