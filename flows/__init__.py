"""Orchestration: Prefect decides when, DVC what is current, MLflow remembers.

rlhf.py tells the story of one run; commands.py adds `run` and `serve` to the
`stylerl` command.  Neither tasks nor stylerl imports this package.
"""
