"""Stage `evaluate`: the models -> completions and the metrics of them.

Its tables depend on nothing but the inputs.
"""

from stylerl import config, storage
from stylerl.config import Params, paths
from stylerl.data import places
from stylerl.evaluation.measurement.evaluation import (
    Evaluation,
    add_skill,
    basis,
    evaluate,
)
from stylerl.judge import Judge
from stylerl.pipeline import process, stage_runs

SCORES = (  # that MLflow's page of models shows side by side
    "compliance", "residual_compliance", "skill", "joint",
    "parse_rate", "length_median", "statements", "used_arguments",
)  # fmt: skip


def main() -> None:
    """Evaluate with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    settings = config.to_dict(params.evaluate)
    with stage_runs.stage_run("evaluate", settings) as run:
        run.log_tags({"judge": judge.identity})
        snippets = storage.read_table(paths.SNIPPETS)
        held_out = snippets[snippets["split"] == params.evaluate.split]
        result = evaluate(
            paths.models(params.sft.base),
            snippets,
            judge,
            params.evaluate,
            params.seed,
            paths.CLASSIFIER,
            places.places(paths.FILES, held_out),
        )
        add_skill(result.metrics, storage.read_json(paths.SKILL))
        write(result, judge, params)
        run.log_metrics(result.metrics)
        run.log_models(_scores(result))
        run.log_file(paths.COMPLETIONS)


def write(result: Evaluation, judge: Judge, params: Params) -> None:
    """Write the tables and the metrics."""
    result.completions.attrs = basis(judge, paths.SNIPPETS, params)
    storage.write_table(paths.COMPLETIONS, result.completions)
    storage.write_json(paths.EVALUATION, result.metrics)
    storage.write_text(paths.RULES, result.rules.to_csv(index=False))


def _scores(result: Evaluation) -> dict[str, dict[str, float]]:
    """The SCORES of each model and baseline, PPO last."""
    names = sorted(result.completions["model"].unique(), key="ppo".__eq__)
    return {
        name: {key: result.metrics[name].get(key) for key in SCORES}
        for name in names
    }


if __name__ == "__main__":
    process.run_main(main)
