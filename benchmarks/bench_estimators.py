"""PPO by each credit and baseline, over seeds, on the validation split.

    python benchmarks/bench_estimators.py [--seeds 0 1 2] [--only ARM ...]
                                          [--train]

Run it in a repository whose stages up to `reward` are up to date.  Each
policy starts at artifacts/sft with the settings of params.yaml, but for the
seed and what its arm changes, and is kept in checkpoints/estimators/ under
the key of the stage `ppo`, with its log: a call trains what is missing there,
and no more with --train, so that two of them share the work of two cores.
Then all arms asked for are measured by `stylerl evaluate`, on the same
prompts of the validation split, where settings are chosen.  Results go to
benchmarks/results/estimators.md.
"""

import argparse
import dataclasses
import datetime
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from bench_baselines import SFT, untrained

from stylerl import config, storage
from stylerl.cli import evaluate_command
from stylerl.config import Params
from stylerl.evaluation import guards
from stylerl.lm.models import save_model
from stylerl.pipeline import graph

RESULTS = Path(__file__).resolve().parent / "results" / "estimators.md"
POLICIES = Path("checkpoints/estimators")
ARMS: dict[str, dict[str, Any]] = {  # what each has of its own
    "default": {},
    "weight-1": {"credit_weight": 1.0},
    "lambda-1": {"gae_lambda": 1.0},
    "response": {"credit": "response"},
    "no-entropy": {"ent_coef": 0.0},
    "value": {"baseline": "value", "gae_lambda": 1.0},
}
POINTS = 100  # of a share
COLUMNS = {  # heading: where evaluate.json has it, and times what
    "compliance %": ("ppo", "compliance", POINTS),
    "gain at SFT's lengths": ("gain", "standardised_compliance", POINTS),
    "cut %": ("gain", "non_compliance_cut", POINTS),
    "median": ("ppo", "length_median", 1),
    "above 45 %": ("ppo", "long_share", POINTS),
    "statements": ("ppo", "statements", 1),
    "distinct-3 %": ("ppo", "distinct_3", POINTS),
    "KL": ("ppo", "kl", 1),
    "ruff in 10 lines": ("ppo", "ruff", 1),
}


def main() -> None:
    """Train what is missing, and measure all that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=ARMS, default=[*ARMS])
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    params = config.override(config.load(), {"evaluate.split": "valid"})
    key = graph.stage_key(graph.find_stage("ppo"))[:16]
    found = {
        (arm, seed): POLICIES / key / f"{arm}-{seed}"
        for seed in options.seeds
        for arm in options.only
    }
    for (arm, seed), folder in found.items():
        if not (folder / "log.json").exists():
            train(params, arm, seed, folder)
    if options.train:
        return
    with tempfile.TemporaryDirectory() as scratch:
        evaluate_command.run([SFT, *found.values()], params, Path(scratch))
        measured = {
            key: storage.read_json(Path(scratch, folder.name, "evaluate.json"))
            for key, folder in found.items()
        }
    logs = {
        key: storage.read_json(folder / "log.json")
        for key, folder in found.items()
    }
    text = report(measured, logs, params)
    print(text)
    storage.write_text(RESULTS, text)


def train(params: Params, arm: str, seed: int, folder: Path) -> None:
    """One policy, and what its run logs: seconds, and alarms by update."""
    print(f"training {folder.name}", flush=True)
    settings = dataclasses.replace(params.ppo, checkpoint_every=0, **ARMS[arm])
    trainer = untrained(dataclasses.replace(params, ppo=settings, seed=seed))
    started = time.monotonic()
    alarms = {
        step.update: [alarm.name for alarm in step.alarms]
        for step in trainer
        if step.alarms
    }
    log = {
        "seconds": time.monotonic() - started,
        "threads": torch.get_num_threads(),
        "alarms": alarms,
    }
    save_model(trainer.policy.model, trainer.tokenizer, folder)
    storage.write_json(folder / "log.json", log)


def report(
    measured: Mapping[Any, Mapping[str, Any]],
    logs: Mapping[Any, Mapping[str, Any]],
    params: Params,
) -> str:
    """A row an arm: the mean over seeds, and from where to where."""
    seeds = sorted({seed for _, seed in measured})
    rows = []
    for arm in dict.fromkeys(arm for arm, _ in measured):
        own = [measured[arm, seed] for seed in seeds]
        cells = [
            spread([each[part][key] * times for each in own])
            for part, key, times in COLUMNS.values()
        ]
        cells += [
            spread([len(logs[arm, seed]["alarms"]) for seed in seeds]),
            spread([logs[arm, seed]["seconds"] for seed in seeds]),
        ]
        failed = sum(not g.held for each in own for g in guards.guards(each))
        changes = ", ".join(f"{k} {v}" for k, v in ARMS[arm].items())
        named = f"{arm}: {changes}" if changes else arm
        rows.append(f"| {' | '.join([named, *cells, str(failed)])} |")
    heading = ["arm", *COLUMNS, "updates with an alarm", "seconds"]
    heading += ["guards that failed"]
    sft, size = next(iter(measured.values()))["sft"], params.evaluate
    threads = {each["threads"] for each in logs.values()}
    command = " ".join(["benchmarks/bench_estimators.py", *sys.argv[1:]])
    return "\n".join(
        [
            "# PPO by each credit and baseline",
            "",
            f"{datetime.date.today()}, {platform.machine()}, "
            f"{os.cpu_count()} cores, threads a run "
            f"{', '.join(map(str, sorted(threads)))}: `python {command}`",
            "",
            f"One SFT model, seeds {', '.join(map(str, seeds))} of PPO, "
            f"{params.ppo.updates * params.ppo.batch_size:,} episodes each; "
            f"{size.prompts} prompts of the validation split, {size.samples} "
            "completions each, the same for all. The mean over seeds, and "
            "the lowest to the highest. SFT: compliance "
            f"{POINTS * sft['compliance']:.1f}%, median "
            f"{sft['length_median']:.0f}, above 45 tokens "
            f"{POINTS * sft['long_share']:.1f}%, ruff {sft['ruff']:.2f}.",
            "",
            f"| {' | '.join(heading)} |",
            f"|{'---|' * len(heading)}",
            *rows,
            "",
        ]
    )


def spread(values: Sequence[float]) -> str:
    """The mean, and from where to where: `1.50 (1.00 to 2.00)`."""
    digits = 2 if max(map(abs, values)) < 10 else 1
    mean = sum(values) / len(values)
    low, high = min(values), max(values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


if __name__ == "__main__":
    main()
