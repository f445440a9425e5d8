"""PPO by each reward, and TRL's RLOO, from one SFT model on one budget.

    python benchmarks/bench_baselines.py [--scale default|small]
                                         [--split test|valid]

Run it in a repository whose stages are up to date, with the linter in
ppo.reward.  Each contender starts at artifacts/sft and gets the same prompts,
the same number of episodes and the settings of params.yaml:

    PPO, linter  what the stage `ppo` has made
    PPO, STYLE   our trainer, with the classifier or the pairwise model in
                 the linter's place
    TRL RLOO     TRL's RLOOTrainer with the reward of params.yaml, and its own
                 defaults where params.yaml has no such setting

RLOO (Ahmadian et al., arXiv 2402.14740) compares GENERATIONS completions of
a prompt instead of learning values, so it sees fewer prompts in a batch; its
learning rate is PPO's and not tuned for it.  All are then measured by
stylerl.evaluation on the same held-out prompts under the same seeds; models
are kept nowhere.  Results go to benchmarks/results/baselines.md.
"""

import argparse
import dataclasses
import datetime
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import config, storage
from stylerl.config import Params
from stylerl.evaluation import display
from stylerl.evaluation.measurement import (
    generations,
    heldout,
    metrics,
    verdicts,
)
from stylerl.evaluation.measurement.generations import (
    REFERENCE,
    LoadedModel,
    Source,
)
from stylerl.judge import Judge
from stylerl.lm.sampling import whole_lines
from stylerl.ppo import PPOTrainer
from stylerl.ppo.factory import build_trainer
from stylerl.ppo.learner import ADAM_EPS
from stylerl.report import summary

RESULTS = Path(__file__).resolve().parent / "results" / "baselines.md"
SNIPPETS = Path("artifacts/filter/snippets.parquet")
LABELS = Path("artifacts/label/labels.parquet")
SFT, POLICY = Path("artifacts/sft"), Path("artifacts/ppo")
GENERATIONS = 4  # completions of a prompt that RLOO compares
STYLES = ("classifier", "pairwise")
SMALL = {  # that it runs, not what it shows
    "ppo.updates": 2,
    "ppo.batch_size": 16,
    "ppo.prompts": 32,
    "evaluate.prompts": 12,
    "evaluate.samples": 1,
    "evaluate.bootstrap": 500,
}
KEYS = (
    "compliance", "score", "parse_rate", "length_median", "statements",
    "distinct_3", "kl", "ruff", "black",
)  # fmt: skip


class Trained(NamedTuple):
    """A contender's completions, and what it took to train it."""

    table: pd.DataFrame
    seconds: float | None = None


def main() -> None:
    """Train and measure every contender; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("default", "small"))
    parser.add_argument("--split", choices=("test", "valid"), default="test")
    options = parser.parse_args()
    changes: dict[str, Any] = {"evaluate.split": options.split}
    if options.scale == "small":
        changes |= SMALL
    params = config.override(config.load(), changes)
    judge = Judge(params.judge)
    prompts = heldout.draw_prompts(
        storage.read_table(SNIPPETS), judge, params.evaluate, params.seed
    )
    reference = generations.load_model(Source(str(SFT)))

    def answers(name: str, loaded: LoadedModel) -> pd.DataFrame:
        settings = params.evaluate
        return generations.complete_prompts(
            name, loaded, prompts, range(settings.samples),
            reference=reference, config=settings, seed=params.seed,
        )  # fmt: skip

    own = generations.load_model(Source(str(POLICY)))
    found = {
        REFERENCE: Trained(answers(REFERENCE, reference)),
        "PPO, linter": Trained(answers("PPO, linter", own)),
    }
    for name, train in contestants(params).items():
        print(f"training {name}", flush=True)
        started = time.monotonic()
        loaded = train()
        spent = time.monotonic() - started
        found[name] = Trained(answers(name, loaded), spent)
    every = pd.concat([t.table for t in found.values()], ignore_index=True)
    text = report(verdicts.judge_completions(every, judge), found, params)
    print(text)
    storage.write_text(RESULTS, text)


def contestants(params: Params) -> dict[str, Callable[[], LoadedModel]]:
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

    return {f"PPO, {style}": by(style) for style in STYLES} | {
        "TRL RLOO": lambda: run_rloo(params)
    }


def run_ppo(params: Params) -> LoadedModel:
    """Our trainer, without checkpoints."""
    trainer = untrained(params)
    for _ in trainer:
        pass
    return LoadedModel(trainer.policy.model, trainer.tokenizer)


def untrained(params: Params) -> PPOTrainer:
    """What the stage `ppo` puts together, before its first update."""
    return build_trainer(SFT, params, storage.read_table(LABELS))


def run_rloo(params: Params) -> LoadedModel:
    """TRL's trainer on the same model, prompts, reward and episodes."""
    import torch
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    settings, ours = params.ppo, untrained(params)
    tokenizer = ours.tokenizer
    begin = tokenizer.bos_token or tokenizer.eos_token  # as encode_prompt
    minibatch = settings.batch_size // settings.num_minibatches

    def reward(
        prompts: list[str],
        completions: list[str],
        completion_ids: list[list[int]],
        **_: Any,
    ) -> list[float | None]:
        done = [ids[-1] == tokenizer.eos_token_id for ids in completion_ids]
        judged = [
            text if end else whole_lines(text)
            for text, end in zip(completions, done, strict=True)
        ]
        plain = [prompt.removeprefix(begin) for prompt in prompts]
        parts = dict(ours.reward(plain, judged))  # type: ignore[arg-type]
        totals = [sum(each) for each in zip(*parts.values(), strict=True)]
        missing = settings.missing_eos_penalty
        return [
            total if end else total - missing
            for total, end in zip(totals, done, strict=True)
        ]

    with tempfile.TemporaryDirectory() as folder:
        trainer = RLOOTrainer(
            model=ours.policy.model,
            processing_class=tokenizer,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict(
                {"prompt": [begin + prompt for prompt in ours.prompts]}
            ),
            args=RLOOConfig(
                output_dir=folder,
                per_device_train_batch_size=minibatch,
                steps_per_generation=settings.num_minibatches,
                num_iterations=settings.update_epochs,
                num_generations=GENERATIONS,
                max_steps=settings.updates
                * settings.num_minibatches
                * settings.update_epochs,
                max_completion_length=settings.max_new_tokens,
                temperature=settings.temperature,
                beta=settings.kl_coef,
                epsilon=settings.clip_coef,
                learning_rate=settings.learning_rate,
                lr_scheduler_type="linear",
                warmup_steps=settings.warmup,
                max_grad_norm=settings.max_grad_norm,
                adam_epsilon=ADAM_EPS,
                gradient_checkpointing=False,
                bf16=ours.compute.bf16,
                use_cpu=not torch.cuda.is_available(),
                seed=params.seed,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
        )
        trainer.train()
        model: Any = trainer.accelerator.unwrap_model(
            trainer.model, keep_fp32_wrapper=False
        )
    return LoadedModel(model.eval(), tokenizer)


def report(
    completions: pd.DataFrame, found: dict[str, Trained], params: Params
) -> str:
    """The table as Markdown, with command, date and machine."""
    shown = [metric for metric in display.TABLE if metric.key in KEYS]
    head = [
        "from SFT by", "seconds", *(m.label for m in shown),
        *(m.label for m in summary.OVER_SFT),
    ]  # fmt: skip
    rows = {
        str(name): own
        for name, own in completions.groupby("model", sort=False)
    }
    lines = []
    for name, own in rows.items():
        numbers = metrics.compute_metrics(own)
        over = metrics.compare_with_sft(
            own, rows[REFERENCE], params.evaluate.bootstrap, params.seed
        )
        cells = [
            "nothing" if name == REFERENCE else name,
            "" if (spent := found[name].seconds) is None else f"{spent:.0f}",
            *(display.show(m, numbers.get(m.key)) for m in shown),
            *(display.show_gain(m, over) for m in summary.OVER_SFT),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    count = rows[REFERENCE]["prompt_id"].nunique()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    command = " ".join(
        ["python", "benchmarks/bench_baselines.py", *sys.argv[1:]]
    )
    return "\n".join(
        [
            "# PPO by each reward, and TRL's RLOO",
            "",
            f"{datetime.date.today()}, {platform.machine()}, "
            f"{os.cpu_count()} cores, load {load}, seed {params.seed}: "
            f"`{command}`",
            "",
            f"{count} prompts of the {params.evaluate.split} split, "
            f"{params.evaluate.samples} completions each; the interval is a "
            "paired bootstrap by prompt; one training run each, of "
            f"{params.ppo.updates * params.ppo.batch_size:,} episodes.",
            "",
            f"| {' | '.join(head)} |",
            "|---" + "|---:" * (len(head) - 1) + "|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
