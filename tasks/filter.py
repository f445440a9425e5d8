"""Stage `filter`: data/ -> snippets, and the files around them."""

from pathlib import Path

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data import corpus, places
from stylerl.pipeline import process, stage_runs

CORPUS = Path("data/corpus.parquet")
METRICS = Path("metrics/filter.json")


def main() -> None:
    """Filter with the parameters of params.yaml."""
    params = config.load()
    with stage_runs.stage_run("filter", config.to_dict(params.filter)) as run:
        snippets, counts = corpus.filter_corpus(CORPUS, params.filter)
        summary = f"{counts['kept']} snippets; left out: {counts['dropped']}"
        print(f"filter: {summary}")
        storage.write_table(paths.SNIPPETS, snippets)
        storage.write_table(paths.FILES, places.files(CORPUS, snippets))
        storage.write_json(METRICS, counts)
        run.log_metrics({"kept": counts["kept"], **counts["split"]})


if __name__ == "__main__":
    process.run_main(main)
