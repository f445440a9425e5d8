"""Stage `label`: snippets -> artifacts/label/labels.parquet."""

from pathlib import Path

from stylerl import config, storage
from stylerl.data import labels, places
from stylerl.judge import Judge
from stylerl.pipeline import process, stage_runs

SNIPPETS = Path("artifacts/filter/snippets.parquet")
FILES = Path("artifacts/filter/files.parquet")
LABELS = Path("artifacts/label/labels.parquet")
REMOVED = Path("artifacts/label/fixer.json")
METRICS = Path("metrics/label.json")


def main() -> None:
    """Label with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with stage_runs.stage_run("label", config.to_dict(params.label)) as run:
        run.log_tag("judge", judge.identity)
        snippets = storage.read_table(SNIPPETS)
        drawn = labels.draw(snippets, params.label.snippets, params.seed)
        where = places.places(FILES, drawn)
        table = labels.label(drawn, judge, params.seed, where)
        storage.write_table(LABELS, table)
        removed = labels.fixer_shares(table, judge, where)
        storage.write_json(REMOVED, removed)
        metrics = labels.summary(table, judge.identity)
        storage.write_json(METRICS, metrics)
        run.log_metrics(
            {name: metrics[name] for name in ("as_found", "corrupted")}
        )
        run.log_file(METRICS)


if __name__ == "__main__":
    process.run_main(main)
