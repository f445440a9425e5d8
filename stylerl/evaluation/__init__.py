"""Before and after, on prompts that no training saw.

evaluation.py is the story; heldout.py draws the prompts, contenders.py
samples and judges, measures.py and statistics.py count, baselines.py
compares.
"""
