"""Stage `label`: snippets -> artifacts/label/labels.parquet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stylerl import config, storage
from stylerl.data import labels, places
from stylerl.judge import Judge, cluster
from stylerl.pipeline import process, stage_runs

SNIPPETS = Path("artifacts/filter/snippets.parquet")
FILES = Path("artifacts/filter/files.parquet")
LABELS = Path("artifacts/label/labels.parquet")
METRICS = Path("metrics/label.json")


def main() -> None:
    """Label with the parameters of params.yaml."""
    params = config.load()
    with (
        stage_runs.stage_run("label", config.to_dict(params.label)) as run,
        _judge(params) as judge,
    ):
        run.log_tag("judge", judge.identity)
        snippets = storage.read_table(SNIPPETS)
        drawn = labels.draw(snippets, params.label.snippets, params.seed)
        table = labels.label(
            snippets,
            params.label,
            judge,
            params.seed,
            places.places(FILES, drawn),
        )
        storage.write_table(LABELS, table)
        metrics = labels.summary(table, judge.identity)
        storage.write_json(METRICS, metrics)
        run.log_metrics(
            {name: metrics[name] for name in ("as_found", "corrupted")}
        )
        run.log_file(METRICS)


@contextmanager
def _judge(params: config.Params) -> Iterator[Judge]:
    """The judge at work here, or on the cluster that params name."""
    if params.label.scheduler is None:
        yield Judge(params.judge)
        return
    with cluster.connect(params.label.scheduler, params.judge) as pool:
        yield Judge(params.judge, pool=pool)


if __name__ == "__main__":
    process.run_main(main)
