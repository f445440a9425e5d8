"""stylerl: align a code model to a style guide, linter in the loop.

README.md has the rooms in the order of the pipeline.  Prefect, DVC and MLflow
are imported by pipeline and cli alone.
"""
