"""stylerl: align a code model to a style guide, linter in the loop.

The library knows torch, transformers, flake8 and pandas, and nothing of
Prefect, DVC or MLflow: tasks/ wraps one function of it per stage, and
flows/ strings the stages together.
"""
