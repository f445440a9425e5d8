"""The reward model against the judge: texts a second on the same texts.

    python benchmarks/bench_reward.py [--model FOLDER] [--texts N]

Both score prompt and completion of labelled snippets, as PPO has them do:
the judge in this process and over several, the reward model on the CPU with
this process's threads and, where torch sees one, on a CUDA device.  Each is
warmed up, then timed `ROUNDS` times by the clock and by CPU time of all
processes; the least of each counts.  On a machine that does something else
as well, believe the second.  Results go to benchmarks/results/reward.md.
"""

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from stylerl import storage
from stylerl.config import JudgeConfig
from stylerl.judge import Judge, pool
from stylerl.lm import encoding, models
from stylerl.reward.scorers import score_texts

LABELS = Path("artifacts/label/labels.parquet")
RESULTS = Path(__file__).parent / "results" / "reward.md"
ROUNDS = 3


class Speed(NamedTuple):
    """How long one way of scoring took."""

    name: str
    texts: int
    clock: float  # seconds
    cpu: float  # seconds, all processes

    def row(self) -> str:
        """A line of the table."""
        return (
            f"| {self.name} | {self.clock:.2f} | "
            f"{self.texts / self.clock:.0f} | {self.cpu:.2f} | "
            f"{self.texts / self.cpu:.0f} |"
        )


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--model", type=Path, default=Path("artifacts/reward/classifier")
    )
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--texts", type=int, default=1024, metavar="N")
    options = parser.parse_args()
    table = storage.read_table(options.labels)
    texts = table["text"].head(options.texts).tolist()
    judges = [timed_judge(texts, jobs) for jobs in (1, pool.cores())]
    learned = [timed_model(texts, options.model, torch.device("cpu"))]
    if torch.cuda.is_available():
        device = torch.device("cuda")
        learned.append(timed_model(texts, options.model, device))
    text = report(options, texts, judges, learned)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


def timed_judge(texts: list[str], jobs: int) -> Speed:
    """The judge over `jobs` processes, without a cache."""
    judge = Judge(JudgeConfig())
    spent = least(lambda: list(judge.verdicts(texts, jobs=jobs)))
    return Speed(f"judge, {count(jobs, 'process')}", len(texts), *spent)


def timed_model(texts: list[str], folder: Path, device: torch.device) -> Speed:
    """A reward model on a device, in batches as PPO scores."""
    tokenizer = encoding.load_tokenizer(folder)
    model: Any = models.load_scorer(folder, tokenizer=tokenizer)
    model.to(device)
    spent = least(lambda: score_texts(model, tokenizer, texts))
    where = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {count(torch.get_num_threads(), 'thread')}"
    )
    return Speed(f"reward model, {where}", len(texts), *spent)


def least(work: Callable[[], object]) -> tuple[float, float]:
    """Clock and CPU seconds of some rounds, the least of each."""
    clock, cpu = [], []
    for _ in range(ROUNDS + 1):  # the first warms up
        start, before = time.perf_counter(), cpu_seconds()
        work()
        clock.append(time.perf_counter() - start)
        cpu.append(cpu_seconds() - before)
    return min(clock[1:]), min(cpu[1:])


def cpu_seconds() -> float:
    """Of this process and of the judge's workers."""
    mine = psutil.Process()
    spent = [each.cpu_times() for each in (mine, *mine.children())]
    return sum(times.user + times.system for times in spent)


def report(
    options: argparse.Namespace,
    texts: list[str],
    judges: list[Speed],
    learned: list[Speed],
) -> str:
    """The Markdown page."""
    command = f"python benchmarks/bench_reward.py --texts {len(texts)}"
    characters = sum(map(len, texts)) / len(texts)
    weights = options.model / "model.safetensors"
    lines = [
        "# Reward model against judge",
        "",
        f"`{command}`, {datetime.date.today()}, {platform.machine()}, "
        f"{count(pool.cores(), 'core')}, load average "
        f"{os.getloadavg()[0]:.1f}, torch {torch.__version__}.",
        "",
        f"{len(texts)} texts of {characters:.0f} characters on average; a "
        f"model file of {weights.stat().st_size / 2**20:.0f} MiB; the "
        f"least of {ROUNDS} rounds.",
        "",
        "| what scores | seconds | texts a second | CPU seconds "
        "| texts a CPU second |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [each.row() for each in (*judges, *learned)]
    lines += ["", verdict(judges, learned)]
    return "\n".join(lines) + "\n"


def verdict(judges: list[Speed], learned: list[Speed]) -> str:
    """When which is worth it, from the figures."""
    linter = min(judges, key=lambda each: each.cpu)
    model = min(learned, key=lambda each: each.cpu)
    ratio = model.cpu / linter.cpu
    words = (
        f"costs {ratio:.1f} times the CPU time of the judge"
        if ratio >= 1
        else f"costs {ratio:.2f} of the judge's CPU time"
    )
    return (
        f"Here the reward model ({model.name.partition(', ')[2]}) {words}. "
        "The judge is exact: it is the reward to train on, unless scoring "
        "holds up the training. A reward model is worth it for what no linter "
        "can say, such as what people prefer, and as a second opinion in an "
        "ensemble."
    )


def count(number: int, noun: str) -> str:
    """`1 core`, `2 cores`, `2 processes`."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


if __name__ == "__main__":
    main()
