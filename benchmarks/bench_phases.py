"""Where a default run's time goes, and what share of it had to be.

    python benchmarks/bench_phases.py [--updates N]

Run it in a repository whose stages up to `sft` are up to date.  It repeats
a part of what `sft`, `ppo` and `evaluate` do with the settings of
params.yaml, and times each phase:

    sft       the optimiser steps between two that the trainer logs
    generate  the completions of PPO's batches
    judge     their rewards
    score     log-probabilities of policy and reference
    update    the optimiser steps
    evaluate  completions of 128 held-out prompts by the SFT model

The floor of a model's phase is its matrix products, two operations a weight
and token (a backward pass counts twice), a group's prompt once, the output
embedding on learnt or sampled tokens only, at the speed of a product of 1,024
in the same precision and process.  The floor of `judge` is what pycodestyle,
pyflakes, tokenizer and parser take for the same texts, as files of their own,
on all cores.  The first update warms up and is not counted.  Results go to
benchmarks/results/phases.md.
"""

import argparse
import dataclasses
import datetime
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from bench_baselines import untrained
from bench_judge_files import floor as judge_floor
from rates import hardware, matmul_rate

from stylerl import config, storage
from stylerl.config import Params, paths
from stylerl.data.prompts import unread_prompts
from stylerl.lm import encoding, models
from stylerl.lm.precision import computes_in_bf16
from stylerl.lm.sampling import generate
from stylerl.ppo.rollouts import Rollouts
from stylerl.supervised import sft

RESULTS = Path(__file__).resolve().parent / "results" / "phases.md"
BATCHES = 30  # of sft
HELD_OUT = 128  # prompts that the SFT model completes
FORWARD, TRAINED = 1, 3  # passes; a backward pass counts twice
Seconds = defaultdict[str, float]  # by phase


def main() -> None:
    """Time every phase; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=4)
    options = parser.parse_args()
    params = config.load()
    seconds: Seconds = defaultdict(float)
    needed: Seconds = defaultdict(float)
    for measure in (fine_tune, reinforce, complete):
        measure(params, options.updates, seconds, needed)
    rows = [
        f"| {phase} | {took:.1f} | {needed[phase]:.2f} | "
        f"{100 * needed[phase] / took:.0f}% |"
        for phase, took in seconds.items()
        if phase in needed
    ]
    text = "\n".join(
        [
            "# What share of a run's time had to be",
            "",
            f"{datetime.date.today()}, {hardware()}, "
            f"{torch.get_num_threads()} threads: `python "
            f"benchmarks/bench_phases.py --updates {options.updates}`",
            "",
            f"Some steps of sft, {options.updates - 1} updates of ppo, "
            f"{HELD_OUT} completions of evaluate.",
            "",
            "| phase | seconds | floor, s | share |",
            "|---|---:|---:|---:|",
            *rows,
            "",
        ]
    )
    print(text)
    storage.write_text(RESULTS, text)


def fine_tune(
    params: Params, _: int, seconds: Seconds, needed: Seconds
) -> None:
    """Some batches of the stage `sft`."""
    settings = dataclasses.replace(
        params.sft, snippets=BATCHES * params.sft.batch_size
    )
    labels = storage.read_table(paths.LABELS)
    marks: dict[int, float] = {}  # when a step was first logged
    tuned = sft.fine_tune(
        labels,
        settings,
        params.seed,
        log=lambda _, step: marks.setdefault(step, time.perf_counter()),
    )
    lessons = sft.compliant_snippets(labels)["train"][: settings.snippets]
    pairs = [
        each.encode(tuned.tokenizer, settings.context) for each in lessons
    ]
    first, last = min(marks), max(marks)
    seconds["sft"] = marks[last] - marks[first]
    read = sum(len(given) + len(learnt) for given, learnt in pairs)
    targets = sum(len(learnt) for _, learnt in pairs)
    work = passes(tuned.model, read, targets, TRAINED) / rate("auto")
    needed["sft"] = work * (last - first) / BATCHES


def reinforce(
    params: Params, updates: int, seconds: Seconds, needed: Seconds
) -> None:
    """Some updates of the stage `ppo`."""
    trainer = untrained(
        dataclasses.replace(
            params,
            ppo=dataclasses.replace(
                params.ppo,
                updates=updates,
                checkpoint_every=0,
            ),
        )
    )
    model, speed = trainer.policy.model, rate(params.ppo.precision)
    for step in trainer:
        if step.update == 1:
            continue
        for phase, took in step.seconds.items():
            seconds[phase] += took
        batch = step.rollouts
        read, written = tokens(batch, params.ppo.group_size)
        work = passes(model, read, written, FORWARD) / speed
        needed["generate"] += work
        needed["score"] += 2 * work  # policy and reference
        needed["update"] += TRAINED * params.ppo.update_epochs * work
        needed["judge"] += linted(batch)


def complete(
    params: Params, _: int, seconds: Seconds, needed: Seconds
) -> None:
    """Some completions of the stage `evaluate`."""
    tokenizer = encoding.load_tokenizer(paths.SFT)
    model = models.load_causal_lm(paths.SFT, tokenizer=tokenizer)
    settings = params.evaluate
    labels = storage.read_table(paths.LABELS)
    prompts = unread_prompts(labels, "valid", params.seed)
    begin = time.perf_counter()
    found = generate(
        model,
        tokenizer,
        list(prompts)[:HELD_OUT],
        max_new_tokens=settings.max_new_tokens,
        temperature=settings.temperature,
        seed=params.seed,
        bf16=computes_in_bf16("auto"),
    )
    seconds["evaluate"] = time.perf_counter() - begin
    written = sum(map(len, found.ids))
    read = written + sum(map(len, found.prompt_ids))
    work = passes(model, read, written, FORWARD)
    needed["evaluate"] = work / rate("auto")


def passes(model: Any, read: int, scored: int, count: int) -> float:
    """Operations of `count` passes over `read` tokens, of which `scored`
    reach the output embedding."""
    head = model.get_output_embeddings().weight.numel()
    embedding = model.get_input_embeddings().weight
    tied = embedding is model.get_output_embeddings().weight
    every = sum(p.numel() for p in model.parameters())
    body = every - head - (0 if tied else embedding.numel())
    return 2.0 * count * (body * read + head * scored)


def rate(precision: str) -> float:
    """Operations a second of a matrix product, in what `precision` means."""
    bf16 = computes_in_bf16(precision)
    return matmul_rate(torch.bfloat16 if bf16 else torch.float32)


def tokens(batch: Rollouts, group: int) -> tuple[int, int]:
    """Of a batch, the prompt of a group once, and of its responses alone."""
    written = int(batch.response_lengths.sum())
    return written + int(batch.prompt_lengths.sum()) // group, written


def linted(batch: Rollouts) -> float:
    """Seconds of the linter's own work on a batch, on all cores."""
    pairs: Sequence[tuple[str, str]] = list(
        zip(batch.prompts, batch.judged, strict=True)
    )
    texts = [(prompt + text).encode() for prompt, text in pairs]
    return judge_floor(texts) / (os.cpu_count() or 1)


if __name__ == "__main__":
    main()
