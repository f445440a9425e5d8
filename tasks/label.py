"""Stage `label`: snippets -> artifacts/label/labels.parquet."""

from pathlib import Path

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data import labels, places
from stylerl.judge import Judge
from stylerl.pipeline import process, stage_runs

METRICS = Path("metrics/label.json")


def main() -> None:
    """Label with the parameters of params.yaml."""
    params = config.load()
    judge = Judge(params.judge)
    with stage_runs.stage_run("label", config.to_dict(params.label)) as run:
        run.log_tags({"judge": judge.identity})
        snippets = storage.read_table(paths.SNIPPETS)
        drawn = labels.draw(snippets, params.label.snippets, params.seed)
        where = places.places(paths.FILES, drawn)
        table = labels.label(drawn, judge, params.seed, where)
        storage.write_table(paths.LABELS, table)
        metrics = labels.summary(table, judge.identity)
        storage.write_json(METRICS, metrics)
        run.log_metrics(
            {name: metrics[name] for name in ("as_found", "corrupted")}
        )


if __name__ == "__main__":
    process.run_main(main)
