"""Where Prefect, DVC and MLflow meet; no other room imports any of them.

graph.py reads dvc.yaml, stage_task.py runs one stage as a Prefect task,
stage_runs.py and registry.py keep what MLflow remembers, through tracking.py,
server.py, child.py, process.py and workspace.py
are about processes and the folder they share.
"""
