"""What a reward costs: the judge, every token's reward, a reward model.

    python benchmarks/bench_reward.py [--completions N]

All grade completions that SFT and PPO wrote in the last run, each in the file
that its prompt was cut from: the judge; `TextReward` with `token_rewards`, as
other trainers call them; and the classifier, on a CUDA device where torch
sees one.  Each is warmed up, then timed, judge and rewards `ROUNDS` times, by
the clock and by CPU time of all processes; the least counts.  On a machine
that does something else as well, believe the second.  Results go to
benchmarks/results/reward.md.
"""

import argparse
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import psutil
import torch

from stylerl import config, storage
from stylerl.config import paths
from stylerl.data import places
from stylerl.engines.token_level import token_rewards
from stylerl.judge import pool
from stylerl.lm import encoding, models
from stylerl.pipeline import machine
from stylerl.reward.other_trainers import TextReward
from stylerl.reward.scorers import score_texts

POLICY = "artifacts/ppo"
RESULTS = Path(__file__).parent / "results" / "reward.md"
ROUNDS = 3


class Speed(NamedTuple):
    """How long one way of grading took."""

    name: str
    clock: float  # seconds
    cpu: float  # seconds, all processes

    def row(self, count: int) -> str:
        """A line of the table, of so many completions."""
        return (
            f"| {self.name} | {self.clock:.2f} | {count / self.clock:.0f} "
            f"| {self.cpu:.2f} | {count / self.cpu:.0f} |"
        )


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--completions", type=int, default=1024, metavar="N")
    rows = written(parser.parse_args().completions)
    tokenizer = encoding.load_tokenizer(POLICY)
    prompts, texts = rows["prompt"].tolist(), rows["completion"].tolist()

    # 1. The judge, where a completion stands.
    cut = storage.read_table(paths.SNIPPETS)
    cut = cut[cut["id"].isin(rows["prompt_id"])]
    where = places.places(paths.FILES, cut)
    at = [where.get(name) for name in rows["prompt_id"]]
    items = [*zip(at, prompts, texts, strict=True)]
    reward = TextReward(config.load(), tokenizer)
    judge = timed("judge", lambda: reward.judge.in_place(items))

    # 2. The reward of every token, from the columns of a data set.
    files = storage.read_table(paths.FILES)
    joined = rows.merge(cut, left_on="prompt_id", right_on="id").merge(
        files, on=places.KEY, suffixes=("", "_file")
    )
    ids = [
        [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        for text in joined["completion"]
    ]

    def of_tokens() -> None:
        scored = reward.scored(
            joined["prompt"].tolist(),
            joined["completion"].tolist(),
            ids,
            file_text=joined["text_file"].tolist(),
            line=joined["line"].tolist(),
            file_path=joined["path"].tolist(),
        )
        token_rewards(scored, tokenizer, ids)

    tokens = timed("reward of every token", of_tokens)

    # 3. A reward model, on prompt and completion.
    scorer: Any = models.load_scorer(paths.CLASSIFIER, tokenizer=tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    scorer.to(device)
    both = [p + c for p, c in zip(prompts, texts, strict=True)]
    model = timed(
        f"classifier, {device}",
        lambda: score_texts(scorer, tokenizer, both),
        rounds=1,
    )
    RESULTS.write_text(page(len(rows), len(joined), judge, tokens, model))
    print(RESULTS.read_text())


def written(count: int) -> pd.DataFrame:
    """So many completions of SFT and PPO, of the last run."""
    table = storage.read_table(paths.COMPLETIONS)
    return table[table["model"].isin(["sft", "ppo"])].head(count)


def timed(
    name: str, work: Callable[[], object], rounds: int = ROUNDS
) -> Speed:
    """Clock and CPU seconds of some rounds, the least of each."""
    clock, cpu = [], []
    for _ in range(rounds + 1):  # the first warms up
        start, before = time.perf_counter(), cpu_seconds()
        work()
        clock.append(time.perf_counter() - start)
        cpu.append(cpu_seconds() - before)
    return Speed(name, min(clock[1:]), min(cpu[1:]))


def cpu_seconds() -> float:
    """Of this process and of the judge's workers."""
    mine = psutil.Process()
    spent = [each.cpu_times() for each in (mine, *mine.children())]
    return sum(times.user + times.system for times in spent)


def page(count: int, joined: int, *speeds: Speed) -> str:
    """The Markdown page."""
    judge, tokens, model = speeds
    counts = (count, joined, count)
    return "\n".join(
        [
            "# What a reward costs",
            "",
            f"`python benchmarks/bench_reward.py --completions {count}`, "
            f"{datetime.date.today()}, {machine.cpu()}, {pool.cores()} cores,"
            f" torch {torch.__version__}.",
            "",
            f"| {count} completions, in their files | seconds | a second "
            "| CPU seconds | a CPU second |",
            "|---|---:|---:|---:|---:|",
            *[s.row(n) for s, n in zip(speeds, counts, strict=True)],
            "",
            f"Of the judge's CPU time, the classifier takes "
            f"{model.cpu / judge.cpu:.1f} times as much, and every token's "
            f"reward {tokens.cpu / judge.cpu:.1f} times, judge included.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
