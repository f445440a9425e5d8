"""Other ways from one SFT model to a compliant one, beside PPO's.

    python benchmarks/bench_baselines.py [NAME ...] [--train]

Run it in a repository whose stages are up to date, with the linter in
ppo.reward and the seed in params.yaml.  Those that are trained, in some four
hours of two cores, start at artifacts/sft (`formatted` at the base) and get
PPO's prompts; but for DPO and APO, its number of episodes and its reward too:

    last-token, classifier, pairwise
                our trainer, rewarded on the last token: by the linter, or
                with the classifier or the pairwise model in its place
    rloo, grpo  TRL's RLOOTrainer and GRPOTrainer (by_trl.py)
    raft        of some completions of each prompt the best, then SFT on
                these; again and again (by_raft.py)
    dpo, apo    TRL's DPOTrainer, with the losses sigmoid and apo_zero, on
                what SFT wrote and the same after the fixer (by_trl.py)
    formatted   SFT on its bodies as the fixer leaves them (by_sft.py)

RLOO, GRPO and RAFT get the reward as one number a completion.  Where
ppo.keep_length, TRL's are given it less what length explains of it among
siblings, and RAFT chooses at the price of length by which what it takes is as
long as all of it; unlike PPO, none brings back lengths that moved.  The rest
is SFT and PPO as they are, decoded otherwise:

    cold, greedy    at temperatures that people decode at
    best4, best16   with more samples for the linter to choose from

Each model is kept in checkpoints/baselines/ under the key of the stage `ppo`,
which knows nothing of this file: a call trains what is missing there, and no
more with --train.  `stylerl evaluate` then measures them, HumanEval's problems
included.  What it found goes to benchmarks/results/runs/NAME-SEED.json, and
from there into docs/results.md (tools/rivals.py).
"""

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import bench_run
import torch
from by_raft import run_raft
from by_sft import run_sft
from by_trl import run_dpo, run_trl

from stylerl import config, storage
from stylerl.cli import evaluate_command
from stylerl.config import Params, paths
from stylerl.data.places import places_of_labels
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.lm.saving import save_model
from stylerl.pipeline import graph
from stylerl.pipeline.stage_runs import KEY
from stylerl.ppo import PPOTrainer
from stylerl.ppo.factory import build_trainer

MODELS, LOG = Path("checkpoints/baselines"), "log.json"
DECODED: dict[str, dict[str, Any]] = {  # what is changed, of the evaluation
    "cold": {"evaluate.temperature": 0.2},
    "greedy": {"evaluate.temperature": 0.01, "evaluate.samples": 1},
    "best4": {"evaluate.samples": 4, "evaluate.prompts": 100},
    "best16": {"evaluate.samples": 16, "evaluate.prompts": 100},
}


def main() -> None:
    """Train what is missing, measure it, and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    params = config.load()
    contenders = trained_by(params)
    everyone = [*contenders, *DECODED]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=", ".join(everyone)
    )
    parser.add_argument(
        "--train", action="store_true", help="train, and measure nothing"
    )
    options = parser.parse_args()
    names = options.names or everyone
    if unknown := {*names} - {*everyone}:
        parser.error(f"no {unknown}; the names are {', '.join(everyone)}")
    key = os.environ.get(KEY) or graph.stage_key(graph.find_stage("ppo"))
    models = {
        name: MODELS / key[:16] / name for name in contenders if name in names
    }
    for name, folder in models.items():
        if not (folder / LOG).exists():
            train(name, contenders[name], folder)
    if options.train:
        return
    if models:
        measure(models, params)
    for name in DECODED:
        if name in names:
            changes = DECODED[name] | {"skill.tests": "none"}
            measure({name: paths.PPO}, config.override(params, changes))


def measure(models: Mapping[str, Path], params: Params) -> None:
    """Print how the models do beside SFT, and keep what was found.

    Args:
        models: their folders, by names of this script.
        params: of the evaluation.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        out = scratch / "out"
        folders = [paths.SFT, *models.values()]
        print(evaluate_command.run(folders, params, out, scratch), flush=True)
        for name, model in models.items():
            found = storage.read_json(out / model.name / "evaluate.json")
            log = {} if model == paths.PPO else storage.read_json(model / LOG)
            bench_run.keep(
                f"{name}-{params.seed}",
                f"python benchmarks/bench_baselines.py {name}",
                {"seconds": None, **log, "evaluate": found},
            )


def train(name: str, way: Callable[[], LoadedModel], folder: Path) -> None:
    """Train a contender, and save it with its commit and its seconds."""
    print(f"training {name}", flush=True)
    started = time.monotonic()
    loaded = way()
    log = {
        "commit": bench_run.commit(),
        "seconds": round(time.monotonic() - started),
        "threads": torch.get_num_threads(),
    }
    save_model(*loaded, folder)
    storage.write_json(folder / LOG, log)


def trained_by(params: Params) -> dict[str, Callable[[], LoadedModel]]:
    """How each contender is trained, by its name."""
    others = dict(params.ppo.reward)
    weight = others.pop("linter")

    def by(style: str) -> Callable[[], LoadedModel]:
        changed = dataclasses.replace(
            params.ppo,
            reward={style: weight, **others},
            credit="response",
        )
        return lambda: run_ppo(dataclasses.replace(params, ppo=changed))

    return {
        "last-token": by("linter"),
        "classifier": by("classifier"),
        "pairwise": by("pairwise"),
        "raft": lambda: run_raft(untrained(params)),
        "rloo": lambda: run_trl(untrained(params), "RLOO"),
        "grpo": lambda: run_trl(untrained(params), "GRPO"),
        "dpo": lambda: run_dpo(untrained(params), "sigmoid"),
        "apo": lambda: run_dpo(untrained(params), "apo_zero"),
        "formatted": lambda: run_sft(params),
    }


def run_ppo(params: Params) -> LoadedModel:
    """Our trainer, without checkpoints."""
    trainer = untrained(params)
    for _ in trainer:
        pass
    return LoadedModel(trainer.policy.model, trainer.tokenizer)


def untrained(params: Params) -> PPOTrainer:
    """What the stage `ppo` puts together, before its first update."""
    labels = storage.read_table(paths.LABELS)
    return build_trainer(
        paths.SFT,
        params,
        labels,
        places=places_of_labels(paths.FILTER, labels),
    )


if __name__ == "__main__":
    main()
