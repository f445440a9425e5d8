"""An update of ours beside TRL's GRPO and RLOO: the default's own work.

    python benchmarks/bench_trl.py [--updates N]

Run it in a repository whose stages up to `sft` are up to date.  Each side
starts at artifacts/sft with the prompts, the reward, the linter included, and
the settings of params.yaml, as far as TRL has them (by_trl.py): as
many episodes an update and completions a prompt, as many optimiser steps,
adapters of the same rank, the same precision.  Each runs in a process of its
own; the first update warms up and is not counted.  The model ends its
completions where it will, as in use, so the table has the tokens too.
Results go to benchmarks/results/trl.md.
"""

import argparse
import dataclasses
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import trl
from bench_baselines import untrained
from by_trl import run_trl
from rates import hardware, peak_gib
from transformers import TrainerCallback, TrainerState, TrainingArguments

from stylerl import config, storage
from stylerl.config import Params

RESULTS = Path(__file__).resolve().parent / "results" / "trl.md"
SIDES = ("ours", "GRPO", "RLOO")


class Marks(TrainerCallback):
    """When each optimiser step of TRL's had ended, and after what tokens."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.tokens: list[float] = []

    def on_step_end(
        self, _: TrainingArguments, state: TrainerState, *__: Any, **___: Any
    ) -> None:
        """Note it."""
        self.seconds.append(time.perf_counter())
        self.tokens.append(state.num_input_tokens_seen)


def main() -> None:
    """Measure each side; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=1, help="counted")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.updates < 1:
        parser.error("--updates must be at least 1")
    params = config.load()
    ppo = dataclasses.replace(
        params.ppo, updates=options.updates + 1, checkpoint_every=0
    )
    params = dataclasses.replace(params, ppo=ppo)
    if options.side:
        print(json.dumps(measure(options.side, params)))
        return
    found = {side: child(side, options.updates) for side in SIDES}
    text = report(found, options.updates, params)
    print(text)
    storage.write_text(RESULTS, text)


def child(side: str, updates: int) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, "--updates", str(updates)]
    done = subprocess.run(
        [*command, "--side", side], stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{side} failed")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(side: str, params: Params) -> dict[str, float]:
    """Seconds and tokens of an update, and the peak of memory in GiB."""
    counted = params.ppo.updates - 1
    if side == "ours":
        tokens = 0.0
        for step in untrained(params):
            if step.update == 1:
                begin = time.perf_counter()
                continue
            tokens += float(step.rollouts.prompt_lengths.sum())
            tokens += float(step.rollouts.response_lengths.sum())
        seconds = time.perf_counter() - begin
    else:
        marks = Marks()
        run_trl(untrained(params), side, params.ppo.group_size, marks)
        warm = params.ppo.num_minibatches * params.ppo.update_epochs - 1
        seconds = marks.seconds[-1] - marks.seconds[warm]
        tokens = marks.tokens[-1] - marks.tokens[warm]
    return {
        "seconds": seconds / counted,
        "tokens": tokens / counted,
        "gib": peak_gib(),
    }


def report(
    found: Mapping[str, Mapping[str, float]], updates: int, params: Params
) -> str:
    """The table, with command, date and machine."""
    ours, episodes = found["ours"], params.ppo.batch_size
    rows = [
        f"| {side if side == 'ours' else f'TRL {side}'} | "
        f"{each['seconds']:.1f} | {each['tokens']:,.0f} | "
        f"{episodes / each['seconds']:.2f} | "
        f"{each['seconds'] / ours['seconds']:.1f} | {each['gib']:.1f} | "
        f"{ours['gib'] / each['gib']:.2f} |"
        for side, each in found.items()
    ]
    return "\n".join(
        [
            "# An update of ours, and TRL's",
            "",
            f"{datetime.date.today()}, {hardware()}, "
            f"{torch.get_num_threads()} threads, trl {trl.__version__}: "
            f"`python benchmarks/bench_trl.py --updates {updates}`",
            "",
            f"{episodes} episodes an update; tokens are of prompts and "
            "completions, as if each episode had its own prompt.",
            "",
            "| trainer | seconds an update | tokens | episodes a second | "
            "seconds, ours = 1 | peak GiB | our GiB over theirs |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
