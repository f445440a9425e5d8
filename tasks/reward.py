"""Stage `reward`: labels and the SFT model -> two reward models."""

from collections.abc import Mapping
from pathlib import Path

from stylerl import config, storage
from stylerl.config import paths
from stylerl.judge import Judge
from stylerl.lm import saving
from stylerl.pipeline import process, stage_runs, tracking
from stylerl.reward_models import (
    dataset,
    model_metrics,
    preferences,
    scorer_training,
)
from stylerl.reward_models.dataset import RewardDataset
from stylerl.supervised.training import Log

METRICS = Path("metrics/reward.json")


def main() -> None:
    """Train and measure with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with stage_runs.stage_run("reward", config.to_dict(params.reward)) as run:
        run.log_tags({"judge": judge.identity})
        train_set, eval_set = _datasets(params, judge)
        # 1. Train both models, and save each with the judge's identity.
        settings, seed = params.reward, params.seed
        classifier = scorer_training.train_classifier(
            train_set.labels, settings, seed, _logger(run, "classifier")
        )
        pairwise = scorer_training.train_pairwise(
            train_set.pairs, settings, seed, _logger(run, "pairwise")
        )
        saved = ((classifier, paths.CLASSIFIER), (pairwise, paths.PAIRWISE))
        for scorer, folder in saved:
            saving.tag_with_judge(scorer.model, judge.identity)
            saving.save_model(*scorer, folder)
        # 2. Measure both on the eval set.
        measured = model_metrics.measure(
            classifier, pairwise, eval_set, settings.batch_size
        )
        storage.write_json(METRICS, measured)
        run.log_metrics(measured)


def _datasets(
    params: config.Params, judge: Judge
) -> tuple[RewardDataset, RewardDataset]:
    """The train set, people's preferences included, and the eval set."""
    settings, seed = params.reward, params.seed
    labels = storage.read_table(paths.LABELS)
    train_set = dataset.train_set(labels, judge, settings, seed)
    eval_set = dataset.eval_set(labels, judge, seed)
    answers = preferences.load(preferences.FILE)
    train_set.pairs.extend(preferences.learnable(answers))
    return train_set, eval_set


def _logger(run: tracking.Run, model: str) -> Log:
    """Log what a model's training reports under the model's name."""

    def log(metrics: Mapping[str, float], step: int) -> None:
        run.log_metrics({model: metrics}, step)

    return log


if __name__ == "__main__":
    process.run_main(main)
