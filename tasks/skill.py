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
from stylerl.evaluation.measurement.bootstrap import RESAMPLES
from stylerl.evaluation.measurement.generations import Source
from stylerl.judge import Judge
from stylerl.lm.sampling import fits_all
from stylerl.pipeline import process, stage_runs
from stylerl.skill import measure, problems, sandbox
from stylerl.skill.problems import Problem

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
        asked, why = _asked(params)
        if why:
            tqdm.write(f"skill: not measured: {why}")
            storage.write_table(COMPLETIONS, pd.DataFrame())
            storage.write_json(METRICS, {"problems": 0, "why_not": why})
        else:
            measured = _measure(params, judge, asked)
            storage.write_json(METRICS, measured)
            run.log_metrics(measured)
        run.log_file(METRICS)
    shutil.rmtree(DOWNLOADS, ignore_errors=True)


def sources(params: Params) -> dict[str, Source]:
    """The models that are measured."""
    return {
        "base": Source(params.sft.base),
        "sft": Source(str(SFT)),
        "ppo": Source(str(PPO)),
    }


def _asked(params: Params) -> tuple[list[Problem], str]:
    """The problems that fit every model, or why nothing is to be run."""
    if params.skill.tests == "none":
        return [], "skill.tests is none"
    if why := sandbox.why_not():
        return [], why
    new = measure.new_tokens(params.skill)
    fits = fits_all(sources(params).values(), new)
    rows = problems.load(DOWNLOADS)
    asked = [
        problem
        for problem in problems.problems(rows, params.skill.lines)
        if fits(problem.prompt)
    ]
    return asked, "" if asked else f"no problem leaves room for {new} tokens"


def _measure(
    params: Params, judge: Judge, asked: list[Problem]
) -> dict[str, Any]:
    """Sample, try out, and write the table; the metrics."""
    table = measure.complete(
        sources(params),
        asked,
        params.skill,
        params.evaluate.temperature,
        params.seed,
    )
    table = measure.try_out(table, asked, judge, sandbox.runner())
    storage.write_table(COMPLETIONS, table)
    found = measure.metrics(table, RESAMPLES, params.seed)
    return {"problems": len(asked), "samples": params.skill.samples, **found}


if __name__ == "__main__":
    process.run_main(main)
