"""Stage `ppo`: the SFT model, rewarded for style -> artifacts/ppo.

A killed run resumes from its last checkpoint, in checkpoints/ppo/ under the
stage's key: the digest of its command, parameters and inputs, so that no other
run takes it up.
"""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data import places
from stylerl.judge import Judge
from stylerl.pipeline import graph, process, stage_runs, tracking
from stylerl.ppo import PPOTrainer, Step, build_trainer, health
from stylerl.ppo.ranks import Ranks

CHECKPOINTS = Path("checkpoints/ppo")
METRICS = Path("metrics/ppo.json")
SAMPLES = 8  # completions logged, every so many updates:
SAMPLE_EVERY = 10
LATEST = 5  # updates in the final means
SUMMARY = (
    "objective/score",
    "objective/kl",
    "objective/entropy",
    "judge/compliance",
    "judge/parse_rate",
    "judge/statements",
    "response/length",
    "response/eos_rate",
)


def main() -> None:
    """Train with the parameters of params.yaml.

    Under `accelerate launch` the main rank alone logs and writes.
    """
    params = config.load()
    # The other ranks take part in every update, and wait for what the main
    # one writes.
    if not Ranks().is_main:
        for _ in (trainer := make_trainer(params)):
            pass
        trainer.save_policy(paths.PPO)
        return
    with stage_runs.stage_run("ppo", config.to_dict(params.ppo)) as run:
        run.log_tags({"judge": Judge(params.judge).identity})
        trainer = make_trainer(params)
        trainer.resume()
        # A resumed run is a new MLflow run: log what was done before it.
        for update, metrics in enumerate(trainer.history, start=1):
            run.log_metrics(metrics, update)
        triggered: set[str] = set()
        for step in trainer:
            log_step(run, step, triggered)
            write_curves(_curves(trainer.history))  # for `dvc plots show`
        # The outputs of the stage, as dvc.yaml declares them.
        trainer.save_policy(paths.PPO)
        table = _updates(trainer.history)
        write_curves(table)
        summary = _summary(table)
        storage.write_json(METRICS, summary)
        run.log_metrics(summary)
    if trainer.checkpoints:
        shutil.rmtree(trainer.checkpoints, ignore_errors=True)


def make_trainer(params: config.Params) -> PPOTrainer:
    """The trainer of this stage, with its checkpoints."""
    labels = storage.read_table(paths.LABELS)
    key = stage_runs.key_of(graph.find_stage("ppo"))
    return build_trainer(
        paths.SFT,
        params,
        labels,
        checkpoints=CHECKPOINTS / key[:16],
        places=places.places_of_labels(paths.FILTER, labels),
    )


def log_step(run: tracking.Run, step: Step, triggered: set[str]) -> None:
    """Log one update to MLflow, and print its alarms.

    An alarm is printed when it is first triggered; `triggered` then holds its
    name.  The MLflow tag holds its latest state.
    """
    times = {f"seconds/{k}": v for k, v in step.seconds.items()}
    times["tokens_per_second"] = step.tokens_per_second
    run.log_metrics(step.metrics | times, step.update)
    for alarm in step.alarms:
        words = f"update {step.update}: {alarm}"
        if alarm.name not in triggered:
            tqdm.write(words)
            triggered.add(alarm.name)
        run.log_tags({f"alarm: {alarm.name}": words})
    if step.update % SAMPLE_EVERY == 1:
        batch = step.rollouts
        table = pd.DataFrame(
            {
                "prompt": batch.prompts,
                "completion": batch.completions,
                "finished": batch.finished,
                **{k: v.tolist() for k, v in batch.reward_parts.items()},
                "linter": batch.monitored["score"].tolist(),
            }
        )
        run.log_table(f"rollouts_{step.update:04d}.json", table.head(SAMPLES))


def write_curves(table: pd.DataFrame) -> None:
    """Write what is plotted by update."""
    storage.write_text(paths.UPDATES, table.to_csv(index=False))


def _curves(history: list[dict[str, float]]) -> pd.DataFrame:
    """One row for each update: its metrics."""
    return pd.DataFrame(
        {"update": update, **metrics}
        for update, metrics in enumerate(history, start=1)
    )


def _updates(history: list[dict[str, float]]) -> pd.DataFrame:
    """The same, and the names of each update's alarms."""
    names = [
        "; ".join(alarm.name for alarm in health.alarms(history[:update]))
        for update in range(1, len(history) + 1)
    ]
    table = _curves(history)
    return table.assign(alarms=names)


def _summary(table: pd.DataFrame) -> dict[str, Any]:
    """The means of the last updates, and how many raised an alarm."""
    last = table.tail(LATEST)
    means = {
        name.partition("/")[2]: round(float(last[name].mean()), 6)
        for name in SUMMARY
    }
    alarms = int((table["alarms"] != "").sum())
    return {**means, "updates": len(table), "alarms": alarms}


if __name__ == "__main__":
    process.run_main(main)
