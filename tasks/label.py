"""Stage `label`: snippets -> artifacts/label/labels.parquet."""

from pathlib import Path

from stylerl import config, labels, storage
from stylerl.judge import Judge
from tasks import process, tracking

SNIPPETS = Path("artifacts/filter/snippets.parquet")
LABELS = Path("artifacts/label/labels.parquet")
METRICS = Path("metrics/label.json")


def main() -> None:
    """Label with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with tracking.stage_run("label", config.to_dict(params.label)) as run:
        run.log_tag("judge", judge.identity)
        snippets = storage.read_table(SNIPPETS)
        table = labels.label(snippets, params.label, judge, params.seed)
        storage.write_table(LABELS, table)
        metrics = labels.summary(table, judge.identity)
        storage.write_json(METRICS, metrics)
        run.log_metrics(
            {name: metrics[name] for name in ("as_found", "roughened")}
        )
        run.log_file(METRICS)


if __name__ == "__main__":
    process.run(main)
