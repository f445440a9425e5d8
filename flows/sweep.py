"""A sweep: the flow's stages at each point of a grid, one after another.

    stylerl sweep
    stylerl sweep --grid ppo.kl_coef=[0.02,0.1] --set ppo.updates=20

Every point is a child run of the sweep's in MLflow, with metrics as a flow's
own run has them, so the UI and `stylerl compare` take any two.  The same
command resumes a sweep that was killed: what a finished point made is in
DVC's run cache.  Afterwards params.yaml is as it was, and so are artifacts
that were up to date when the command began.  Points are measured on the
validation split, so that choosing one leaves the test prompts fresh, and none
is registered: run the flow with the chosen values for that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact

from flows.rlhf import (
    METRICS,
    log_own_errors_without_traceback,
    record,
    run_stages,
)
from stylerl import config, storage
from stylerl.evaluation import frontier
from stylerl.evaluation.frontier import Point
from stylerl.judge import Judge
from stylerl.pipeline import (
    logged_models,
    preflight,
    stage_runs,
    tracking,
    workspace,
)
from stylerl.pipeline import stage_task as stages
from stylerl.report import summary
from stylerl.report import sweep as report

GRID = {
    "ppo.kl_coef": [0.02, 0.05, 0.1],
    "ppo.learning_rate": [7e-5, 1.4e-4, 2.8e-4],
}
MEASURED_ON = {"evaluate.split": "valid"}


@flow(name="sweep", persist_result=False)
def sweep(
    grid: dict[str, list[Any]] | None = None,
    params: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run every point of the grid; KL and compliance of each.

    Args:
        grid: values by dotted key, such as {"ppo.kl_coef": [0.05, 0.1]}.
        params: values for every point, such as {"ppo.updates": 20}.

    Raises:
        ConfigError: a point breaks a rule; nothing has run then.
        StylerlError: a stage failed at some point.
    """
    log_own_errors_without_traceback()
    params = {**MEASURED_ON, **(params or {})}
    with workspace.exclusive():
        swept = grid or GRID
        points = preflight.points(swept, params)
        was_current = not stages.stale()
        with stage_runs.flow_run("sweep", swept, kind="sweep") as parent:
            found = []
            try:
                for point in points:
                    found.append(_run(point, params, parent))
                    _publish(found, parent)
            finally:
                workspace.restore()
            if was_current:
                run_stages(parent, workspace.settings())
            parent.log_file(report.write_page())
    return [point._asdict() for point in found]


def _run(
    setting: preflight.Setting, params: Mapping[str, Any], parent: tracking.Run
) -> Point:
    """Bring the stages up to date at one point; what came of it."""
    chosen = workspace.apply_overrides({**params, **setting})
    name = ", ".join(f"{key}={value}" for key, value in setting.items())
    get_run_logger().info("point %s", name)
    with stage_runs.flow_run(
        name, config.to_dict(chosen), kind="point", parent=parent.id
    ) as run:
        results = run_stages(run, chosen)
        metrics: dict[str, Any] = storage.read_json(METRICS)
        record(run, metrics, results, Judge(chosen.judge).identity)
        logged_models.log(results, chosen, metrics)
        return frontier.point_of(setting, metrics)


def _publish(points: Sequence[Point], parent: tracking.Run) -> None:
    """Show what is known so far in the report, MLflow and the Prefect UI."""
    basis = summary.basis(storage.read_json(METRICS))
    judge = Judge(config.load().judge).identity
    report.keep_sweep(points, basis, judge)
    text = report.markdown(points)
    parent.log_tag("mlflow.note.content", text)
    create_markdown_artifact(
        text, key="frontier", description=f"{len(points)} points"
    )
