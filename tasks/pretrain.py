"""Stage `pretrain`: snippets -> artifacts/base, the embedded base model.

Frozen in dvc.yaml: `dvc pull pretrain` brings the model that is in the
repository.  `make base` trains it again.
"""

import dataclasses
from pathlib import Path

import torch

from stylerl import config, models, pretrain, storage
from tasks import process, tracking

SNIPPETS = Path("artifacts/filter/snippets.parquet")
BASE = Path("artifacts/base")
METRICS = Path("metrics/pretrain.json")
STEPS_A_SNAPSHOT = 500


def main() -> None:
    """Train with the parameters of params.yaml."""
    params = config.load()
    settings = params.pretrain
    if settings.threads:
        torch.set_num_threads(settings.threads)
    snippets = storage.read_table(SNIPPETS)
    card = pretrain.describe(snippets, settings)
    curve = []
    with tracking.stage_run("pretrain", config.to_dict(settings)) as run:
        for progress, model, tokenizer in pretrain.train(
            snippets, settings, params.seed
        ):
            if progress.step % 20 == 0:
                run.log_metrics({"loss": progress.loss}, progress.step)
            if progress.valid_bits is None:
                continue
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


if __name__ == "__main__":
    process.run(main)
