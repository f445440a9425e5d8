"""The stages: parameters and paths in, a library call, artifacts out.

Each module runs as `python -m tasks.<stage>`, which is what dvc.yaml and the
Prefect flow call.
"""
