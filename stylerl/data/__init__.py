"""From raw files to labelled snippets.

sources.py collects files, corpus.py cuts them into snippets and splits them,
labels.py asks the judge for a verdict on each.
"""
