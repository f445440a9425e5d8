"""stylerl: align a code model to a style guide, linter in the loop.

The rooms, in the order of the pipeline: config, data, judge, corrupt, lm,
reward, ppo, evaluation, report; cli is the command.  Prefect, DVC and MLflow
are imported by pipeline alone.
"""
