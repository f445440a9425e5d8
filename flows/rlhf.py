"""The flow `rlhf`: from raw code to an aligned model, and the proof.

dvc.yaml declares the stages and their order.  One after the other they are
brought up to date by a cached, retried task (stylerl/pipeline/stage_task.py);
a run without changes does no work.  `stylerl run` calls the flow, `stylerl
serve` offers it as the deployments rlhf/full and rlhf/smoke.
"""

import logging
from functools import partial
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from stylerl import config, storage
from stylerl.config import paths
from stylerl.errors import StylerlError
from stylerl.evaluation import promotion
from stylerl.evaluation.promotion import Decision
from stylerl.pipeline import (
    graph,
    preflight,
    registry,
    stage_runs,
    tracking,
    workspace,
)
from stylerl.pipeline import stage_task as stages
from stylerl.report import summary
from stylerl.report.summary import REPORT


@flow(name="rlhf", persist_result=False)
def rlhf(
    preset: str | None = None, params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Align the model; before/after metrics go to the MLflow run.

    Args:
        preset: smoke, default, notebook or gpu; writes params.yaml anew.
            Without it params.yaml is used as it is.
        params: single values on top, such as {"ppo.kl_coef": 0.1}.

    Returns:
        The metrics of the last stage, and under `promotion` whether the
        policy became champion.

    Raises:
        StylerlError: a parameter, the data or a stage is at fault.
    """
    log_own_errors_without_traceback()
    with workspace.exclusive():
        settings = workspace.configure(preset, params)
        judge = preflight.check_files(settings)
        name = flow_run.name or "rlhf"
        probe = stages.stale.submit()  # DVC takes a second: meanwhile
        with stage_runs.flow_run(name, config.to_dict(settings)) as parent:
            results = run_stages(parent, probe.result())
            metrics: dict[str, Any] = storage.read_json(paths.EVALUATION)
            lineage = record(parent, metrics, results, judge)
            decision = promote(parent, metrics, results, lineage)
    scores = summary.markdown(metrics)
    create_markdown_artifact(scores, "before-after", "Scores")
    return {**metrics, "promotion": decision.text if decision else None}


def run_stages(
    parent: tracking.Run, stale: set[str]
) -> dict[str, dict[str, Any]]:
    """Bring every stage up to date in turn; the result of each.

    DVC is asked once for all stages, and again after each that did work:
    only then can anything on disk have changed.

    Args:
        parent: MLflow run of the flow.
        stale: what `stages.stale` gave.
    """
    results: dict[str, dict[str, Any]] = {}
    tags: dict[str, str] = {}
    if "data.dvc" in stale:
        stages.track_data()
    declared = graph.connected_stages()
    known: set[str] | None = stale
    for number, stage in enumerate(declared, 1):
        where = f"{number} of {len(declared)}: {stage.name}"
        get_run_logger().info("stage %s", where)
        if known is None:
            known = stages.stale()
        key = graph.stage_key(stage)
        todo = stage.name in known
        state = stages.task_of(stage)(
            stage.name, key, parent.id, todo, return_state=True
        )
        results[stage.name] = result = state.result()
        if state.name != "Cached":
            known = None
        tags[f"state.{stage.name}"] = state.name or ""
        if result["run"]:
            tags[f"run.{stage.name}"] = result["run"]
    parent.log_tags(tags)
    return results


def record(
    parent: tracking.Run,
    metrics: dict[str, Any],
    results: dict[str, dict[str, Any]],
    judge: str,
) -> dict[str, str]:
    """Put metrics and lineage on the parent run.

    Returns:
        The lineage: this run, the judge, and each raw input's digest.
    """
    note = {"mlflow.note.content": summary.markdown(metrics)}
    parent.log_tags({"judge": judge, **note})
    parent.log_metrics(stage_runs.scores(metrics))
    parent.log_file(REPORT)
    made = {path for result in results.values() for path in result["outs"]}
    raw = {
        path: digest
        for stage in graph.load_stages()
        for path, digest in graph.datasets(stage).items()
        if path not in made
    }
    parent.log_inputs(raw)
    return {"flow": parent.id, "judge": judge, **raw}


def promote(
    parent: tracking.Run,
    metrics: dict[str, Any],
    results: dict[str, dict[str, Any]],
    lineage: dict[str, str],
) -> Decision | None:
    """Register the policy, and make it champion if the gate holds.

    None where MLflow could not be asked.
    """
    ppo, evaluation = results["ppo"], results["evaluate"]["run"]
    policy = str(paths.PPO)
    version = registry.register(
        ppo["run"], policy, ppo["outs"][policy], lineage
    )
    parent.log_tags({"model_version": version or ""})
    if not version or not evaluation:
        return None
    gate = partial(
        promotion.decide, metrics, storage.read_table(paths.COMPLETIONS)
    )
    scores = summary.markdown(metrics)
    decision = registry.promote(version, evaluation, gate, scores)
    parent.log_tags({"promotion": decision.text if decision else ""})
    return decision


def log_own_errors_without_traceback() -> None:
    """Keep Prefect's tracebacks off errors that explain themselves."""
    for logger in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(logger).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Leave the traceback off an error whose message says it all."""
    if record.exc_info and isinstance(record.exc_info[1], StylerlError):
        record.exc_info = None
    return True
