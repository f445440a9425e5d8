"""The models that a run made, as LoggedModels of MLflow with their scores.

Base, SFT, both reward models, the policies that PPO validated and the one
that it kept: MLflow's page of models shows them side by side, for each set of
prompts that they were measured on.  The weights stay where DVC keeps them;
the tag `digest` says which they are.

All is read from what the stages left, after a run of the flow.  A digest is
logged once, and so are its scores on one dataset; what a store lacks, because
it did not answer or is another one, is added by the next run.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import config, storage
from stylerl.config import Params
from stylerl.pipeline import graph, tracking

LABELS = "artifacts/label/labels.parquet"
COMPLETIONS = Path("artifacts/evaluate", tracking.COMPLETIONS)
REWARD = Path("metrics/reward.json")
PPO = Path("metrics/ppo.json")
UPDATES = Path("metrics/ppo.csv")
VALIDATED = "validation/"  # what the columns begin with
FOLDERS = {"sft": "artifacts/sft", "ppo": "artifacts/ppo"}

Results = Mapping[str, Mapping[str, Any]]  # of the stages' tasks


class Scored(NamedTuple):
    """A model, and what was measured of it on one dataset."""

    name: str
    stage: str  # that made it
    folder: str  # empty where the weights were not kept
    digest: str
    measured_by: str  # the stage
    dataset: tuple[str, str]  # name and digest
    metrics: Mapping[str, Any]
    step: int = 0
    run: str = ""  # that the scores are logged to, if not the model's name


def log(
    results: Results, settings: Params, metrics: Mapping[str, Any]
) -> None:
    """Log what the store lacks of every model and score, by best effort.

    Args:
        results: of `run_stage` by stage, with runs that the store has.
        settings: what params.yaml holds.
        metrics: of the stage `evaluate`.
    """
    tracking.best_effort(
        lambda: _log(
            [
                *_reward_models(results, settings),
                *_validated(results, settings),
                *_evaluated(results, settings, metrics),  # shown first
            ],
            results,
            config.to_dict(settings),
        )
    )


def _log(
    models: list[Scored], results: Results, settings: Mapping[str, Any]
) -> None:
    """Ends early where a run cannot log; raises what MLflow does."""
    client = tracking.connect()
    for name, group in groupby(models, lambda model: model.run or model.name):
        found = [
            (model, _find_or_add(client, model, results, settings))
            for model in group
        ]
        new = [(model, kept) for model, kept in found if _lacks(kept, model)]
        if not new:
            continue
        first, ids = new[0][0], [kept.model_id for _, kept in new]
        parent = results[first.measured_by]["run"]
        tags = {"mlflow.parentRunId": parent} if parent else {}
        run = tracking.Run(name, tags)
        run.log_inputs(dict([first.dataset]), "eval", ids)
        for model, kept in new:
            scores = dict(model.metrics)
            run.log_metrics(scores, model.step, kept.model_id, model.dataset)
        run.end("FINISHED")
        if run.client is None:
            return


def _find_or_add(
    client: "tracking.MlflowClient",
    model: Scored,
    results: Results,
    settings: Mapping[str, Any],
) -> Any:
    """The LoggedModel of a digest, with the parameters of its stage.

    A policy has one already where it is registered (registry.py).
    """
    known = client.search_logged_models(
        [tracking.experiment(client)],
        f"tags.digest = '{model.digest}'",
        max_results=1,
    )
    source = results.get(model.stage, {}).get("run")  # None: others made it
    tags = {"digest": model.digest, "stage": model.stage}
    if model.folder:
        tags["folder"] = model.folder
    found = known[0] if known else None
    if found is None:
        found = tracking.external_model(model.name, source, tags)
    if not found.params:
        ours = model.stage in results
        given = settings.get(model.stage, {}) if ours else {}
        tracking.log_model_params(found.model_id, given)
    return found


def _lacks(found: Any, model: Scored) -> bool:
    """Whether a LoggedModel has no score on the model's dataset yet."""
    known = {metric.dataset_digest for metric in found.metrics or ()}
    return model.dataset[1] not in known


def _evaluated(
    results: Results, settings: Params, metrics: Mapping[str, Any]
) -> Iterator[Scored]:
    """Base, SFT and PPO on the prompts of the stage `evaluate`."""
    basis = dict(storage.read_table(COMPLETIONS).attrs)
    split = "literal" if basis.get("prompt_texts") else basis["split"]
    dataset = _dataset(split, basis)
    base = settings.sft.base
    digest = graph.inputs(graph.find_stage("sft"))[base] or base
    yield Scored(
        "base", "base", base, digest, "evaluate", dataset, metrics["base"]
    )
    for name, folder in FOLDERS.items():
        digest = results[name]["outs"][folder]
        yield Scored(
            name, name, folder, digest, "evaluate", dataset, metrics[name]
        )


def _reward_models(results: Results, settings: Params) -> Iterator[Scored]:
    """Both reward models on the labels and pairs that they did not see."""
    folder = "artifacts/reward"
    whole = results.get("reward", {}).get("outs", {}).get(folder)
    if not whole or not REWARD.exists():
        return
    measured = storage.read_json(REWARD)
    basis = {
        "seed": settings.seed,
        "held_out": settings.reward.held_out,
        "judge": settings.judge,
    }
    dataset = _held_out("reward", "valid labels and pairs", basis)
    for name in ("classifier", "pairwise"):
        yield Scored(
            name, "reward", f"{folder}/{name}", f"{whole}/{name}", "reward",
            dataset, measured[name],
        )  # fmt: skip


def _validated(results: Results, settings: Params) -> Iterator[Scored]:
    """The policy at each update that was measured on validation prompts.

    One of them may be the one that was kept, which is `ppo` itself.
    """
    if not UPDATES.exists():
        return
    made, summary = results["ppo"], storage.read_json(PPO)
    kept = summary.get("kept_update", summary["updates"])
    ppo = settings.ppo
    basis = {
        "seed": settings.seed,
        "validation_prompts": ppo.validation_prompts,
        "judge": settings.judge,
        "reward": ppo.reward,
        "reference": results["sft"]["outs"][FOLDERS["sft"]],
        **ppo.sampling,
    }
    dataset = _held_out("ppo", "PPO's validation", basis)
    for row in pd.read_csv(UPDATES).to_dict("records"):
        scores = {
            str(name).removeprefix(VALIDATED): value
            for name, value in row.items()
            if str(name).startswith(VALIDATED) and value == value
        }
        if not scores:
            continue
        update = int(row["update"])
        name, folder = f"ppo-{update:04d}", ""
        digest = f"{made['key']}@{update}"
        if update == kept:
            name, folder = "ppo", FOLDERS["ppo"]
            digest = made["outs"][folder]
        yield Scored(
            name, "ppo", folder, digest, "ppo", dataset,
            scores, update, "validation",
        )  # fmt: skip


def _held_out(
    stage: str, name: str, basis: Mapping[str, Any]
) -> tuple[str, str]:
    """The dataset that a stage measures on, drawn from the labels."""
    read = graph.inputs(graph.find_stage(stage)).get(LABELS)
    return _dataset(name, {"labels": read, **basis})


def _dataset(name: str, basis: Mapping[Any, Any]) -> tuple[str, str]:
    """Name and digest; scores on one digest compare.

    MLflow draws together what has one name, so the digest is in the name.
    """
    text = json.dumps(basis, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{name} {digest[:4]}", digest
