"""Stage `skill`: HumanEval's last lines by each model -> metrics/skill.json.

Generated code runs here, in a sandbox and nowhere else.  Where none starts,
nothing runs, and the file says why.
"""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from stylerl import config, storage
from stylerl.config import Params
from stylerl.evaluation.measurement.generations import Source
from stylerl.judge import Judge
from stylerl.pipeline import process, stage_runs
from stylerl.skill import measure, problems, sandbox

SFT = Path("artifacts/sft")
PPO = Path("artifacts/ppo")
DOWNLOADS = Path("checkpoints/skill")
COMPLETIONS = Path("artifacts/skill/completions.parquet")
METRICS = Path("metrics/skill.json")


def main() -> None:
    """Measure with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with stage_runs.stage_run("skill", config.to_dict(params.skill)) as run:
        run.log_tag("judge", judge.identity)
        why = "skill.tests is none"
        if params.skill.tests != "none":
            why = sandbox.why_not()
        if why:
            tqdm.write(f"skill: not measured: {why}")
            storage.write_table(COMPLETIONS, pd.DataFrame())
            storage.write_json(METRICS, {"problems": 0, "why_not": why})
        else:
            measured = _measure(params, judge)
            storage.write_json(METRICS, measured)
            run.log_metrics(measured)
        run.log_file(METRICS)
    shutil.rmtree(DOWNLOADS, ignore_errors=True)


def _measure(params: Params, judge: Judge) -> dict[str, Any]:
    """Sample, try out, and write the table; the metrics."""
    asked = problems.problems(problems.load(DOWNLOADS), params.skill.lines)
    sources = {
        "base": Source(params.sft.base),
        "sft": Source(str(SFT)),
        "ppo": Source(str(PPO)),
    }
    table = measure.complete(
        sources, asked, params.skill, params.evaluate, params.seed
    )
    table = measure.try_out(table, asked, judge, sandbox.runner())
    storage.write_table(COMPLETIONS, table)
    found = measure.metrics(table, params.evaluate.bootstrap, params.seed)
    return {"problems": len(asked), "samples": params.skill.samples, **found}


if __name__ == "__main__":
    process.run_main(main)
