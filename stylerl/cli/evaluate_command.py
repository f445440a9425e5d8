"""Any models on the evaluation's prompts: `stylerl evaluate MODEL ...`.

The first model is the reference.  What is left in the folder:

    metrics.json     every metric of every model, and which guards held
    evaluation.md    what the terminal showed
    NAME/            of each other model what a run leaves of its evaluation:
                     evaluate.json, rules.csv, completions.parquet (which
                     `stylerl compare` takes) and report.html
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from stylerl import config, storage
from stylerl.cli.complete_command import labelled
from stylerl.config import Params
from stylerl.data import places
from stylerl.evaluation import display, guards
from stylerl.evaluation.measurement import evaluation, generations
from stylerl.evaluation.measurement.evaluation import Evaluation
from stylerl.evaluation.measurement.generations import Source
from stylerl.judge import Judge
from stylerl.report import page, summary

SNIPPETS = Path("artifacts/filter/snippets.parquet")
FILES = Path("artifacts/filter/files.parquet")
USED = ("seed", "judge", "evaluate")  # of the parameters
AUTHORS = "human"  # what the authors' own code is called


def run(folders: Sequence[Path], params: Params, out: Path) -> str:
    """Measure the models, write the folder; the Markdown of `evaluation.md`.

    Raises:
        ModelError: a folder holds no model, or no tokenizer.
        DataError: there is nothing to measure them on.
        DiskError: the folder cannot be written.
    """
    sources = {
        f"{name} (model)" if name == AUTHORS else name: Source(folder)
        for name, folder in labelled(folders).items()
    }
    snippets, judge = storage.read_table(SNIPPETS), Judge(params.judge)
    held_out = snippets[snippets["split"] == params.evaluate.split]
    where = places.places(FILES, held_out)
    with storage.writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for source in sources.values():  # not after the hour of the others
        generations.load_model(source)
    alone, compared = evaluation.evaluate_models(
        sources, snippets, judge, params.evaluate, params.seed, where
    )
    basis = evaluation.basis(judge, SNIPPETS, params)
    failed = {
        name: [
            display.rename(guard.name, each.metrics)
            for guard in guards.guards(each.metrics)
            if not guard.held
        ]
        for name, each in compared.items()
    }
    metrics = {
        "models": {name: source.name for name, source in sources.items()},
        "basis": basis,
        "metrics": alone,
        "failed_guards": failed,
    }
    storage.write_json(out / "metrics.json", metrics)
    for folder, each in zip(
        folder_names(compared), compared.values(), strict=True
    ):
        each.completions.attrs = dict(basis)
        _write(out / folder, each, sources, params)
    tables = [summary.contest(alone, compared)] if len(compared) != 1 else []
    tables += [summary.markdown(each.metrics) for each in compared.values()]
    text = "\n".join(tables)
    storage.write_text(out / "evaluation.md", text)
    return text


def folder_names(names: Iterable[str]) -> list[str]:
    """Models' labels, which may be paths, as different names of folders."""
    found: list[str] = []
    for name in names:
        plain = name.replace("/", "-").strip(".-")
        again = (f"{plain}-{n}" for n in itertools.count(2))
        free = itertools.chain([plain], again)
        found.append(next(each for each in free if each not in found))
    return found


def _write(
    out: Path,
    found: Evaluation,
    sources: Mapping[str, Source],
    params: Params,
) -> None:
    """What a run leaves of its evaluation."""
    storage.write_json(out / "evaluate.json", found.metrics)
    storage.write_text(out / "rules.csv", found.rules.to_csv(index=False))
    storage.write_table(out / "completions.parquet", found.completions)
    labels, chosen = found.metrics["labels"].values(), config.to_dict(params)
    evidence = page.Evidence(
        metrics=found.metrics,
        rules=found.rules,
        completions=found.completions,
        updates=None,
        calibration=None,
        reward=None,
        provenance={
            "judge": found.completions.attrs["judge"],
            "snippets, SHA-256": found.completions.attrs["snippets"],
            "seed": str(params.seed),
            **{
                f"model {name}": page.identify(*sources[name])
                for name in labels
            },
        },
        seconds={},
        params=yaml.safe_dump({key: chosen[key] for key in USED}),
        seed=params.seed,
    )
    storage.write_text(out / "report.html", page.render(evidence))
