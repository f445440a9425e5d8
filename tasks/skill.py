"""Stage `skill`: HumanEval's last lines by each model -> metrics/skill.json.

Generated code runs here, in a sandbox and nowhere else.  Where none starts,
nothing runs, and the file says why.
"""

from pathlib import Path

from tqdm import tqdm

from stylerl import config, storage
from stylerl.config import paths
from stylerl.judge import Judge
from stylerl.pipeline import process, stage_runs
from stylerl.skill import measure

DOWNLOADS = Path("checkpoints/skill")
COMPLETIONS = Path("artifacts/skill/completions.parquet")


def main() -> None:
    """Measure with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    sources = paths.models(params.sft.base)
    with stage_runs.stage_run("skill", config.to_dict(params.skill)) as run:
        run.log_tags({"judge": judge.identity})
        table, why = measure.finish(sources, params, judge, DOWNLOADS)
        if why:
            tqdm.write(f"skill: not measured: {why}")
        storage.write_table(COMPLETIONS, table)
        skill = measure.summary(table, why, params)
        storage.write_json(paths.SKILL, skill)
        if not why:
            run.log_metrics(skill)


if __name__ == "__main__":
    process.run_main(main)
