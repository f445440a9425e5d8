"""Stage `pretrain`: snippets -> artifacts/base, the embedded base model.

A killed run resumes from its last checkpoint, under checkpoints/pretrain/ and
the digest of its data and parameters, when the same command comes again.
Frozen in dvc.yaml: `dvc pull pretrain` brings the model that is in the
repository.  `make base` trains it again.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import torch

from stylerl import config, storage
from stylerl.data import corpus
from stylerl.lm import models
from stylerl.pipeline import process, stage_runs
from stylerl.supervised import pretrain

SNIPPETS = Path("artifacts/filter/snippets.parquet")
BASE = Path("artifacts/base")
METRICS = Path("metrics/pretrain.json")
CHECKPOINTS = Path("checkpoints/pretrain")


def main() -> None:
    """Train with the parameters of params.yaml."""
    params = config.load()
    settings = params.pretrain
    snippets = storage.read_table(SNIPPETS)
    # The same data, settings and seed resume from the same folder, whatever
    # the budget.
    card = pretrain.describe(snippets, settings)
    shape = dataclasses.asdict(settings) | {"tokens": None}
    recipe = json.dumps([card["digest"], shape, params.seed])
    checkpoints = CHECKPOINTS / corpus.digest(recipe)
    curve = []
    with stage_runs.stage_run("pretrain", config.to_dict(settings)) as run:
        for progress, model, tokenizer in pretrain.train(
            snippets, settings, params.seed, checkpoints
        ):
            if progress.step % 20 == 0:
                run.log_metrics({"loss": progress.loss}, progress.step)
            if progress.valid_bits is None:
                continue
            # Each measured model replaces the one before it.
            curve.append(progress._asdict())
            run.log_metrics(
                {"valid_bits_per_byte": progress.valid_bits}, progress.step
            )
            models.save_model(model, tokenizer, BASE, dtype=torch.bfloat16)
            storage.write_json(
                BASE / "training.json",
                {
                    **card,
                    "config": dataclasses.asdict(settings),
                    "curve": curve,
                },
            )
        storage.write_json(
            METRICS, {k: v for k, v in curve[-1].items() if k != "step"}
        )
    shutil.rmtree(checkpoints, ignore_errors=True)


if __name__ == "__main__":
    process.run_main(main)
