"""Stage `reward`: labels and the SFT model -> two reward models."""

from collections.abc import Mapping
from pathlib import Path

from stylerl import config, storage
from stylerl.judge import Judge
from stylerl.lm import models
from stylerl.pipeline import process, tracking
from stylerl.reward import scorers as reward
from stylerl.reward_data import material, preferences, refresh
from stylerl.reward_data import model_metrics as reward_metrics
from stylerl.reward_data.material import Material

LABELS = Path("artifacts/label/labels.parquet")
CLASSIFIER = Path("artifacts/reward/classifier")
PAIRWISE = Path("artifacts/reward/pairwise")
METRICS = Path("metrics/reward.json")
CALIBRATION = Path("metrics/reward_calibration.csv")


def main() -> None:
    """Train and measure with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with tracking.stage_run("reward", config.to_dict(params.reward)) as run:
        run.log_tag("judge", judge.identity)
        learnt, exam = _material(params, judge)
        classifier = reward.train_classifier(
            learnt.labels,
            params.reward,
            params.seed,
            _logger(run, "classifier"),
        )
        models.tag_with_judge(classifier.model, judge.identity)
        models.save_model(*classifier, CLASSIFIER)
        pairwise = reward.train_pairwise(
            learnt.pairs,
            [pair.chosen for pair in learnt.pairs],
            params.reward,
            params.seed,
            _logger(run, "pairwise"),
        )
        models.tag_with_judge(pairwise.model, judge.identity)
        models.save_model(*pairwise, PAIRWISE)
        measured = reward_metrics.measure(
            classifier, pairwise, exam, params.reward.batch_size
        )
        storage.write_json(METRICS, measured.metrics)
        storage.write_text(
            CALIBRATION, measured.calibration.to_csv(index=False)
        )
        run.log_metrics(measured.metrics)
        for bin in measured.calibration.to_dict("records"):
            run.log_metrics(  # in MLflow's chart, the reliability plot
                {"reliability": bin}, round(100 * bin["predicted"])
            )
        run.log_file(METRICS)
        run.log_file(CALIBRATION)


def _material(
    params: config.Params, judge: Judge
) -> tuple[Material, Material]:
    """What to learn from, people's answers included, and to measure on."""
    settings, seed = params.reward, params.seed
    labels = storage.read_table(LABELS)
    rollouts = refresh.label(refresh.read(Path(settings.rollouts)), judge)
    learnt = material.to_learn(labels, rollouts, judge, settings, seed)
    exam = material.to_measure(labels, rollouts, judge, settings, seed)
    answers = preferences.load(Path(settings.preferences))
    learnt.pairs.extend(preferences.learnable(answers))
    return learnt, exam


def _logger(run: tracking.Run, model: str) -> reward.Log:
    """Log what a model's training reports under the model's name."""

    def log(numbers: Mapping[str, float], step: int) -> None:
        run.log_metrics({model: numbers}, step)

    return log


if __name__ == "__main__":
    process.run_main(main)
