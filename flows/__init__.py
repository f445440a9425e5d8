"""Orchestration: Prefect decides when, DVC what is current, MLflow remembers.

rlhf.py tells the story of one run; serve.py offers it as deployments; cli.py
is the `stylerl` command.  This package imports tasks and stylerl, and neither
of them imports it.
"""
