"""Any models on the evaluation's prompts: `stylerl evaluate MODEL ...`.

The first model is the reference.  What is left in the folder:

    metrics.json     every metric of every model
    evaluation.md    what the terminal showed
    NAME/            of each other model what a run leaves of its evaluation:
                     evaluate.json, rules.csv and completions.parquet
"""

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from stylerl import storage
from stylerl.base import dequantised
from stylerl.cli.complete_command import labelled
from stylerl.config import Params, paths
from stylerl.data import places
from stylerl.errors import ModelError
from stylerl.evaluation.measurement import evaluation, generations
from stylerl.evaluation.measurement.evaluation import Evaluation
from stylerl.judge import Judge
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.saving import write_model
from stylerl.report import summary
from stylerl.skill import measure

AUTHORS = "human"  # what the authors' own code is called


def run(
    models: Sequence[Path], params: Params, out: Path, scratch: Path
) -> str:
    """Measure the models, write the folder; the Markdown of `evaluation.md`.

    Args:
        models: folders of models, or GGUF files of models with the tokens of
            the first.
        params: the judge, the evaluation's prompts, and the problems.
        out: the folder that is written.
        scratch: an empty folder.

    Raises:
        ModelError: a folder holds no model, or no tokenizer.
        DataError: there is nothing to measure them on.
        DiskError: the folder cannot be written.
    """
    # 1. What is measured, and on what.
    sources = named(models, scratch)
    outs = {name: out / _folder(name) for name in sources}
    if len({*outs.values()}) < len(models):
        raise ModelError(
            "each model must have a folder of its own in the results; two "
            f"of {', '.join(map(str, models))} would share one: name each "
            "once, or rename it"
        )
    snippets, judge = storage.read_table(paths.SNIPPETS), Judge(params.judge)
    held_out = snippets[snippets["split"] == params.evaluate.split]
    where = places.places(paths.FILES, held_out)
    with storage.writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for source in sources.values():  # not after the hour of the others
        generations.load_model(source)
    # 2. Style on the evaluation's prompts, and skill on HumanEval's problems.
    alone, compared = evaluation.evaluate_models(
        sources, snippets, judge, params.evaluate, params.seed, where
    )
    _add_skill(alone, compared, sources, params, judge, scratch)
    # 3. Tables.
    basis = evaluation.basis(judge, paths.SNIPPETS, params)
    metrics = {"models": sources, "basis": basis, "metrics": alone}
    storage.write_json(out / "metrics.json", metrics)
    for name, result in compared.items():
        result.completions.attrs = dict(basis)
        _write(outs[name], result)
    tables = [summary.contest(alone, compared)] if len(compared) != 1 else []
    tables += [
        summary.markdown(result.metrics) for result in compared.values()
    ]
    text = "\n".join(tables)
    storage.write_text(out / "evaluation.md", text)
    return text


def named(models: Sequence[Path], scratch: Path) -> dict[str, str]:
    """The folders of the models, GGUF files unpacked, by their labels.

    Raises:
        ModelError: the first is no folder, or one of them holds no model.
    """
    if models[0].suffix == ".gguf":
        raise ModelError(
            "the first model must be a folder, whose tokens a GGUF file has; "
            f"got {models[0]}: name the folder that it was exported from"
        )
    folders = [
        unpacked(model, models[0], scratch)
        if model.suffix == ".gguf"
        else model
        for model in models
    ]
    return {
        f"{name} (model)" if name == AUTHORS else name: folder
        for name, folder in labelled(folders).items()
    }


def unpacked(file: Path, like: Path, scratch: Path) -> Path:
    """A GGUF file's weights as a model folder, with the tokenizer of another.

    Raises:
        ModelError: the file holds no model, or one of other tokens.
    """
    if not file.is_file():
        raise ModelError(f"{file} does not exist; `stylerl export` writes it")
    metadata.version("gguf")  # without it transformers blames the file
    tokenizer = load_tokenizer(str(like))
    try:
        model = dequantised.load_model(file)
    except Exception as error:  # a damaged file raises any of them
        raise ModelError(
            f"{file} must be a GGUF file as `stylerl export` writes it; it "
            f"cannot be read: {error}"
        ) from error
    if model.config.vocab_size < len(tokenizer):
        raise ModelError(
            f"a GGUF file must have the {len(tokenizer)} tokens of {like}; "
            f"{file} has {model.config.vocab_size}: name the folder that it "
            "was exported from first"
        )
    write_model(model, tokenizer, scratch / file.name)
    return scratch / file.name


def _folder(label: str) -> str:
    """A label, which may be a path, as one folder's name."""
    return label.replace("..", "_").replace("/", "-")


def _add_skill(
    alone: Mapping[str, dict[str, Any]],
    compared: Mapping[str, Evaluation],
    sources: Mapping[str, str],
    params: Params,
    judge: Judge,
    scratch: Path,
) -> None:
    """Measure skill too: of each model, and of each beside the first."""
    table, why = measure.finish(sources, params, judge, scratch)
    for name, result in compared.items():
        roles = {result.metrics["labels"]["sft"]: "sft", name: "ppo"}
        pair = table
        if not why:
            pair = table[table["model"].isin(roles)]
            pair = pair.assign(model=pair["model"].map(roles))
        skill = measure.summary(pair, why, params)
        evaluation.add_skill(result.metrics, skill)
    if not why:
        every = measure.summary(table, why, params)
        for name, of_model in alone.items():
            of_model |= every.get(name, {})


def _write(out: Path, result: Evaluation) -> None:
    """What the stage `evaluate` leaves."""
    storage.write_json(out / "evaluate.json", result.metrics)
    storage.write_text(out / "rules.csv", result.rules.to_csv(index=False))
    storage.write_table(out / "completions.parquet", result.completions)
