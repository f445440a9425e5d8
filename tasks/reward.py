"""Stage `reward`: labels and the SFT model -> two reward models."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from stylerl import config, models, preferences, storage
from stylerl.judge import Judge
from stylerl.reward import metrics as reward_metrics
from stylerl.reward import pairs
from stylerl.reward import scorers as reward
from tasks import process, tracking

LABELS = Path("artifacts/label/labels.parquet")
CLASSIFIER = Path("artifacts/reward/classifier")
PAIRWISE = Path("artifacts/reward/pairwise")
METRICS = Path("metrics/reward.json")
CALIBRATION = Path("metrics/reward_calibration.csv")


def main() -> None:
    """Train and measure with the parameters of params.yaml."""
    params = config.load()
    labels = storage.read_table(LABELS)
    with tracking.stage_run("reward", config.to_dict(params.reward)) as run:
        classifier = reward.train_classifier(
            labels, params.reward, params.seed, _logger(run, "classifier")
        )
        models.save_model(*classifier, CLASSIFIER)
        learnt, held_out = _preferences(labels, params)
        pairwise = reward.train_pairwise(
            learnt,
            [p.chosen for p in learnt],
            params.reward,
            params.seed,
            _logger(run, "pairwise"),
        )
        models.save_model(*pairwise, PAIRWISE)
        measured = reward_metrics.measure(
            classifier,
            pairwise,
            _split(labels, "valid").head(params.reward.held_out),
            held_out,
            params.reward.batch_size,
        )
        storage.write_json(METRICS, measured.metrics)
        storage.write_text(
            CALIBRATION, measured.calibration.to_csv(index=False)
        )
        run.log_metrics(measured.metrics)
        run.log_file(METRICS)
        run.log_file(CALIBRATION)


def _preferences(
    labels: pd.DataFrame, params: config.Params
) -> tuple[list[pairs.Preference], list[pairs.Preference]]:
    """Pairs to learn from, and held-out minimal pairs to measure on."""
    judge, seed = Judge(params.judge), params.seed
    learnt = pairs.preferences(
        _split(labels, "train"), judge, params.reward.pairs, seed
    )
    answers = preferences.load(Path(params.reward.preferences))
    learnt += preferences.learnable(answers)
    held_out = pairs.minimal(
        _split(labels, "valid"), judge, params.reward.held_out, seed
    )
    return learnt, held_out


def _split(labels: pd.DataFrame, name: str) -> pd.DataFrame:
    return labels[labels["split"] == name]


def _logger(run: tracking.Run, model: str) -> reward.Log:
    """Log what a model's training reports under the model's name."""

    def log(numbers: Mapping[str, float], step: int) -> None:
        run.log_metrics({model: numbers}, step)

    return log


if __name__ == "__main__":
    process.run(main)
