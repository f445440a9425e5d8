"""Stage `sft`: compliant labels and the base model -> artifacts/sft."""

from pathlib import Path

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data import places
from stylerl.lm import saving
from stylerl.pipeline import process, stage_runs
from stylerl.supervised import sft

METRICS = Path("metrics/sft.json")


def main() -> None:
    """Fine-tune with the parameters of params.yaml."""
    params = config.load()
    labels = storage.read_table(paths.LABELS)
    above = places.texts_above(paths.FILTER, labels[labels["compliant"]])
    with stage_runs.stage_run("sft", config.to_dict(params.sft)) as run:
        tuned = sft.fine_tune(
            labels, params.sft, params.seed, run.log_metrics, above
        )
        saving.tag_with_judge(tuned.model, labels.attrs.get("judge"))
        run.log_tags({"judge": str(labels.attrs.get("judge"))})
        saving.save_model(tuned.model, tuned.tokenizer, paths.SFT)
        storage.write_json(METRICS, tuned.metrics)
        run.log_metrics(tuned.metrics)


if __name__ == "__main__":
    process.run_main(main)
