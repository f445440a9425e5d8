"""Stage `evaluate`: the models -> completions, numbers and the report.

Tables and numbers depend on nothing but the inputs.  The report also says
where, when committed and in what time they were made, so its last section
differs from one execution to the next; no stage reads it.
"""

import hashlib
import time
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.console import Console

from stylerl import config, storage
from stylerl.config import Params
from stylerl.errors import ConfigError
from stylerl.evaluation.evaluation import Evaluation, evaluate
from stylerl.evaluation.generations import Source
from stylerl.judge import Judge
from stylerl.pipeline import graph, machine, process, tracking
from stylerl.report import page as report
from stylerl.report import summary
from stylerl.results import display, guards

LOCK = Path("requirements.lock")
SNIPPETS = Path("artifacts/filter/snippets.parquet")
SFT = Path("artifacts/sft")
PPO = Path("artifacts/ppo")
CLASSIFIER = Path("artifacts/reward/classifier")
UPDATES = Path("metrics/ppo.csv")
CALIBRATION = Path("metrics/reward_calibration.csv")
REWARD = Path("metrics/reward.json")
COMPLETIONS = Path("artifacts/evaluate/completions.parquet")
REPORT = Path("artifacts/evaluate/report.html")
METRICS = Path("metrics/evaluate.json")
RULES = Path("metrics/rules.csv")


def main() -> None:
    """Evaluate with the parameters of params.yaml."""
    params = config.load()
    judge, started = Judge(params.judge), time.monotonic()
    sources = {
        "base": Source(params.sft.base, params.sft.revision),
        "sft": Source(str(SFT)),
        "ppo": Source(str(PPO)),
    }
    settings = config.to_dict(params.evaluate)
    with tracking.stage_run("evaluate", settings) as run:
        run.log_tag("judge", judge.identity)
        result = evaluate(
            sources,
            storage.read_table(SNIPPETS),
            judge,
            params.evaluate,
            params.seed,
            CLASSIFIER,
        )
        write(result, judge, sources, params, started)
        run.log_metrics(result.metrics)
        run.log_table("completions.json", _side_by_side(result.completions))
        run.log_file(METRICS)
        run.log_file(RULES)
        run.log_file(COMPLETIONS)
        run.log_file(REPORT)
    console = Console()
    console.print(summary.rich_table(result.metrics))
    for words in (summary.headline, summary.external_linters):
        console.print(words(result.metrics), highlight=False)
    for guard in guards.guards(result.metrics):
        verdict = "held" if guard.held else "FAILED"
        console.print(f"{verdict}  {guard.name}: {guard.text}", markup=False)
    console.print(f"Report: {REPORT}")


def write(
    result: Evaluation,
    judge: Judge,
    sources: dict[str, Source],
    params: Params,
    started: float,
) -> None:
    """Write the tables, the numbers and the page."""
    basis: dict[Any, Any] = {  # what stylerl/results/comparison.py goes by
        "judge": judge.identity,
        "snippets": _digest(SNIPPETS),
        "seed": params.seed,
        **config.to_dict(params.evaluate),
    }
    result.completions.attrs = basis
    storage.write_table(COMPLETIONS, result.completions)
    storage.write_json(METRICS, result.metrics)
    storage.write_text(RULES, result.rules.to_csv(index=False))
    chosen = config.to_dict(params)
    page = report.render(
        report.Evidence(
            metrics=result.metrics,
            rules=result.rules,
            completions=result.completions,
            updates=_read_csv(UPDATES),
            calibration=_read_csv(CALIBRATION),
            reward=storage.read_json(REWARD) if REWARD.exists() else None,
            provenance={
                **_provenance(judge, sources, params.seed),
                **machine.describe(),
            },
            seconds={
                **tracking.seconds_by_stage(),
                "evaluate": time.monotonic() - started,
            },
            params=yaml.safe_dump(
                # the base was made by settings of its own, long before
                {k: v for k, v in chosen.items() if k != "pretrain"},
                sort_keys=False,
            ),
            seed=params.seed,
        )
    )
    storage.write_text(REPORT, page)


def _provenance(
    judge: Judge, sources: dict[str, Source], seed: int
) -> dict[str, str]:
    """What the page rests on: digests of data, judge and models."""
    models = {
        f"model {name}": _identify(source) for name, source in sources.items()
    }
    return {
        "data, MD5 by DVC": _raw_digest(),
        "snippets, SHA-256": _digest(SNIPPETS),
        "judge": judge.identity,
        "lock, SHA-256": _digest(LOCK) if LOCK.exists() else "none",
        "seed": str(seed),
        **models,
    }


def _raw_digest() -> str:
    """What DVC says of the raw data."""
    try:
        digest = graph.inputs(graph.find_stage("filter")).get("data")
    except ConfigError:
        digest = None
    return digest or "outside a pipeline"


def _identify(source: Source) -> str:
    weights = Path(source.name) / "model.safetensors"
    if weights.exists():
        return f"{source.name}, SHA-256 {_digest(weights)}"
    return f"{source.name} at revision {source.revision}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_csv(path: Path) -> pd.DataFrame | None:
    """A table, or None where a stage wrote none or an empty one."""
    try:
        return pd.read_csv(path)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return None


def _side_by_side(completions: pd.DataFrame) -> pd.DataFrame:
    """One row a prompt, each model's first completion and its outcome."""
    first = completions[
        (completions["sample"] == 0)
        & completions["model"].isin(display.MODELS)
    ]
    wide = first.pivot(
        index=["prompt_id", "prompt"],
        columns="model",
        values=["completion", "outcome", "score"],
    )
    pairs = wide.columns.to_flat_index().tolist()
    wide.columns = pd.Index([f"{pair[1]}_{pair[0]}" for pair in pairs])
    return wide.reset_index().drop(columns="prompt_id")


if __name__ == "__main__":
    process.run_main(main)
