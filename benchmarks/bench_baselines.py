"""PPO by each reward, RLOO, GRPO, RAFT, DPO, APO, from one SFT on one budget.

    python benchmarks/bench_baselines.py [--scale default|small]
                                         [--split test|valid]
                                         [--only NAME ...] [--train]

Run it in a repository whose stages are up to date, with the linter in
ppo.reward.  Each contender starts at artifacts/sft and gets the same prompts,
the same number of episodes and the settings of params.yaml:

    ppo          what the stage `ppo` has made, with credit by token
    PPO, STYLE   our trainer, rewarded on the last token: by the linter, or
                 with the classifier or the pairwise model in its place
    TRL METHOD   TRL's RLOOTrainer or GRPOTrainer with our trainer's reward,
                 and its own defaults where params.yaml has no such setting:
                 no token credit, lengths not kept, GRPO by DAPO's loss
    RAFT         of GENERATIONS completions of each prompt the best by the
                 reward of params.yaml, less what length explains of it where
                 ppo.keep_length, then SFT on these; again and again
    DPO, APO     TRL's DPOTrainer, with the losses sigmoid and apo_zero, on
                 what SFT wrote and the same after the fixer

RAFT (Dong et al., arXiv 2304.06767; as a baseline of RL, arXiv 2504.11343)
takes as many optimiser steps as PPO, at PPO's rate, with no KL penalty: it
asks what choosing is worth without a policy gradient.  DPO (Rafailov et al.,
arXiv 2305.18290) and APO (D'Oosterlinck et al., arXiv 2408.06266) learn to
write as the fixer does, which is there at inference as well; they take
PASSES passes over their pairs at a rate of their own.  RLOO (Ahmadian
et al., arXiv 2402.14740) and GRPO (Shao et al., arXiv 2402.03300) compare
GENERATIONS completions of a prompt, where PPO compares ppo.group_size by
default; their learning rate is PPO's and not tuned for them.  Each model is
kept in checkpoints/baselines/ under the key of the stage `ppo`: a call trains
what is missing there, and no more with --train, so that two of them share the
work of two cores.  `stylerl evaluate` then measures them all, HumanEval's
problems included.  Results go to benchmarks/results/baselines.md.
"""

import argparse
import dataclasses
import datetime
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import get_linear_schedule_with_warmup

from stylerl import config, draws, storage
from stylerl.cli import evaluate_command
from stylerl.config import Params
from stylerl.data.places import places_of_labels
from stylerl.errors import DataError
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.judge import Judge, fixer
from stylerl.lm.cut import whole_lines
from stylerl.lm.sampling import Completions, generate
from stylerl.lm.saving import save_model
from stylerl.pipeline import graph
from stylerl.pipeline.stage_runs import KEY
from stylerl.ppo import PPOTrainer, formulas, length
from stylerl.ppo.factory import build_trainer
from stylerl.ppo.learner import ADAM_EPS, MAX_GRAD_NORM
from stylerl.supervised.sft import body_logprobs
from stylerl.supervised.training import MergeAdapters

RESULTS = Path(__file__).resolve().parent / "results" / "baselines.md"
FILTER = Path("artifacts/filter")
LABELS = Path("artifacts/label/labels.parquet")
SFT, POLICY = Path("artifacts/sft"), Path("artifacts/ppo")
MODELS, LOG = Path("checkpoints/baselines"), "log.json"
GENERATIONS = 4  # completions of a prompt that RLOO, GRPO and RAFT compare
PAIRS = 8  # of DPO's optimiser steps, which read two texts for each
PASSES = 2  # over its pairs: a hundred or so, of some four hundred completions
# Of DPO's adapters: at PPO's it forgets to write, the accuracy of its tokens
# falls from 0.7 to 0.3 in 30 steps.
PAIR_RATE = 1e-4
COLD = (0.2, 0.01)  # temperatures that people decode at, the second greedy
STYLES = ("linter", "classifier", "pairwise")
SMALL = {  # that it runs, not what it shows
    "ppo.updates": 2,
    "ppo.batch_size": 16,
    "ppo.prompts": 32,
    "evaluate.prompts": 12,
    "evaluate.samples": 1,
}


def main() -> None:
    """Train and measure every contender; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scale", choices=("default", "small"), default="default"
    )
    parser.add_argument("--split", choices=("test", "valid"), default="test")
    parser.add_argument("--only", nargs="+", help="contenders, by name")
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    changes: dict[str, Any] = {"evaluate.split": options.split}
    if options.scale == "small":
        changes |= SMALL
    params = config.override(config.load(), changes)
    key = os.environ.get(KEY) or graph.stage_key(graph.find_stage("ppo"))
    everyone = contestants(params)
    if unknown := {*(options.only or ())} - everyone.keys():
        parser.error(f"no {unknown}; --only takes {', '.join(everyone)}")
    kept = MODELS / f"{key[:16]}-{options.scale}"
    contenders = {
        name: train
        for name, train in everyone.items()
        if not options.only or name in options.only
    }
    for name, train in contenders.items():
        if not (kept / name / LOG).exists():
            keep(name, train, kept / name)
    if options.train:
        return
    logs = {name: storage.read_json(kept / name / LOG) for name in contenders}
    folders = [SFT, POLICY, *(kept / name for name in contenders)]
    with tempfile.TemporaryDirectory() as scratch:
        out, unpacked = Path(scratch, "out"), Path(scratch)
        found = evaluate_command.run(folders, params, out, unpacked)
        for heat in COLD:  # what choosing a temperature is worth
            cold = config.override(params, {"evaluate.temperature": heat})
            found += f"\nAt temperature {heat}:\n\n" + evaluate_command.run(
                [SFT, POLICY], cold, Path(scratch, str(heat)), unpacked
            )
    text = report(found, logs, params)
    print(text)
    storage.write_text(RESULTS, text)


def keep(name: str, train: Callable[[], LoadedModel], folder: Path) -> None:
    """Train a contender, and keep it and what that took."""
    print(f"training {name}", flush=True)
    started = time.monotonic()
    loaded = train()
    seconds = time.monotonic() - started
    save_model(*loaded, folder)
    log = {"seconds": seconds, "threads": torch.get_num_threads()}
    storage.write_json(folder / LOG, log)


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
        "TRL RLOO": lambda: run_trl(params, "RLOO"),
        "TRL GRPO": lambda: run_trl(params, "GRPO"),
        "RAFT": lambda: run_raft(params),
        "DPO": lambda: run_dpo(params, "sigmoid"),
        "APO": lambda: run_dpo(params, "apo_zero"),
    }


def run_ppo(params: Params) -> LoadedModel:
    """Our trainer, without checkpoints."""
    trainer = untrained(params)
    for _ in trainer:
        pass
    return LoadedModel(trainer.policy.model, trainer.tokenizer)


def untrained(params: Params) -> PPOTrainer:
    """What the stage `ppo` puts together, before its first update."""
    labels = storage.read_table(LABELS)
    return build_trainer(
        SFT,
        params,
        labels,
        places=places_of_labels(FILTER, labels),
    )


def run_trl(
    params: Params, method: str, group: int = GENERATIONS, *watching: Any
) -> LoadedModel:
    """TRL's trainer on the same model, prompts, reward and episodes.

    Args:
        params: of the stages, of which ppo's settings train.
        method: RLOO or GRPO.
        group: completions of a prompt.
        watching: callbacks of its own that TRL's trainer is given.
    """
    import trl
    from datasets import Dataset

    settings, ours = params.ppo, untrained(params)
    tokenizer = ours.tokenizer
    given = {as_given(ours, prompt): prompt for prompt in ours.prompts}
    minibatch = settings.batch_size // settings.num_minibatches

    def reward(prompts: list[str], **sampled: Any) -> list[float]:
        return trl_rewards(ours, [given[p] for p in prompts], **sampled)

    # As many steps on as many episodes as ours.
    with tempfile.TemporaryDirectory() as folder:
        trainer = getattr(trl, f"{method}Trainer")(
            model=ours.policy.model,
            processing_class=tokenizer,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict({"prompt": [*given]}),
            args=getattr(trl, f"{method}Config")(
                output_dir=folder,
                per_device_train_batch_size=minibatch,
                steps_per_generation=settings.num_minibatches,
                num_iterations=settings.update_epochs,
                num_generations=group,
                max_steps=settings.updates
                * settings.num_minibatches
                * settings.update_epochs,
                max_completion_length=settings.max_new_tokens,
                temperature=settings.temperature,
                beta=settings.kl_coef,
                epsilon=settings.clip_coef,
                **optimiser_of(params, ours),
            ),
            callbacks=[*merging(ours), *watching],
        )
        return trained(trainer, tokenizer)


def as_given(ours: PPOTrainer, prompt: str) -> str:
    """A prompt as our sampler gives it: begun, and below what is above it."""
    return str(ours.tokenizer.decode(ours.sampler.encode(prompt)))


def optimiser_of(params: Params, ours: PPOTrainer) -> dict[str, Any]:
    """Settings of TRL's trainers: our optimiser, and nothing kept or sent."""
    return {
        "learning_rate": params.ppo.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": formulas.WARMUP,
        "max_grad_norm": MAX_GRAD_NORM,
        "adam_epsilon": ADAM_EPS,
        "gradient_checkpointing": False,
        "bf16": ours.compute.bf16,
        "use_cpu": not torch.cuda.is_available(),
        "seed": params.seed,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def trained(trainer: Any, tokenizer: Any) -> LoadedModel:
    """Train, and take the model out of accelerate's wrapper."""
    trainer.train()
    model: Any = trainer.accelerator.unwrap_model(
        trainer.model, keep_fp32_wrapper=False
    )
    return LoadedModel(model.eval(), tokenizer)


def merging(ours: PPOTrainer) -> list[MergeAdapters]:
    """Let the model compute with its adapters after each step, if any."""
    adapters = ours.policy.adapters
    return [MergeAdapters(adapters)] if adapters else []


def run_dpo(params: Params, loss: str) -> LoadedModel:
    """TRL's trainer on what the model wrote and what the fixer made of it."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    settings, ours = params.ppo, untrained(params)
    tokenizer = ours.tokenizer
    prompts = [p for p in ours.prompts for _ in range(GENERATIONS)]
    sampled = generate(
        ours.policy.model,
        tokenizer,
        prompts,
        **settings.sampling,
        seed=draws.seed_of(params.seed, "autofix"),
        batch_size=settings.batch_size,
        bf16=ours.compute.bf16,
        encode=ours.sampler.encode,
    )
    written = [
        pair
        for *pair, done in zip(
            prompts, sampled.texts, sampled.finished, strict=True
        )
        if done
    ]
    judge = ours.sampler.grader.judge
    rows = autofix_pairs(written, judge)
    if not rows:
        raise DataError("DPO needs pairs; the fixer changed no completion")
    given = {prompt: as_given(ours, prompt) for prompt in ours.prompts}
    with tempfile.TemporaryDirectory() as folder:
        trainer = DPOTrainer(
            model=ours.policy.model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(
                [row | {"prompt": given[row["prompt"]]} for row in rows]
            ),
            args=DPOConfig(
                output_dir=folder,
                loss_type=[loss],
                per_device_train_batch_size=PAIRS,
                num_train_epochs=PASSES,
                max_length=None,
                precompute_ref_log_probs=True,
                **optimiser_of(params, ours) | {"learning_rate": PAIR_RATE},
            ),
            callbacks=merging(ours),
        )
        return trained(trainer, tokenizer)


def autofix_pairs(
    written: Sequence[Sequence[str]], judge: Judge
) -> list[dict[str, str]]:
    """Prompt, chosen and rejected of each completion that the fixer changes.

    Args:
        written: prompts and completions.
        judge: with the places of the prompts.
    """
    items = [(judge.places.get(p), p, text) for p, text in written]
    fixed = fixer.fix(items, judge)
    return [
        {"prompt": prompt, "chosen": better, "rejected": text}
        for (prompt, text), better in zip(written, fixed, strict=True)
        if better != text
    ]


def trl_rewards(
    ours: PPOTrainer,
    prompts: list[str],
    completions: list[str],
    completion_ids: list[list[int]],
    **_: Any,
) -> list[float]:
    """What our trainer would give the completions that TRL's has sampled."""
    eos = ours.tokenizer.eos_token_id
    finished = [ids[-1:] == [eos] for ids in completion_ids]
    judged = [
        text if done else whole_lines(text)
        for text, done in zip(completions, finished, strict=True)
    ]
    return total_rewards(ours, prompts, judged, finished)


def total_rewards(
    ours: PPOTrainer,
    prompts: list[str],
    judged: list[str],
    finished: list[bool],
) -> list[float]:
    """What our trainer would give each episode, its parts summed."""
    parts = dict(ours.sampler.grader(prompts, judged, finished).reward)
    totals = [sum(each) for each in zip(*parts.values(), strict=True)]
    missing = ours.config.missing_eos_penalty
    return [
        total if done else total - missing
        for total, done in zip(totals, finished, strict=True)
    ]


def run_raft(params: Params) -> LoadedModel:
    """Sample, keep the best of each prompt, take SFT's steps on these."""
    settings, ours = params.ppo, untrained(params)
    model: Any = ours.policy.model
    steps = settings.num_minibatches * settings.update_epochs
    total = settings.updates * steps
    optimizer = torch.optim.Adam(
        model.parameters(), settings.learning_rate, eps=ADAM_EPS
    )
    schedule = get_linear_schedule_with_warmup(
        optimizer, round(formulas.WARMUP * total), total
    )
    count = settings.batch_size // GENERATIONS
    for update in range(settings.updates):
        places = draws.positions(
            update * count, count, len(ours.prompts), params.seed
        )
        prompts = [ours.prompts[p] for p in places for _ in range(GENERATIONS)]
        sampled = generate(
            model,
            ours.tokenizer,
            prompts,
            **settings.sampling,
            seed=draws.seed_of(params.seed, "raft", update),
            batch_size=settings.batch_size,
            bf16=ours.compute.bf16,
            encode=ours.sampler.encode,
        )
        totals = total_rewards(ours, prompts, sampled.judged, sampled.finished)
        if settings.keep_length:
            totals = relieved_of_length(totals, prompts, sampled)
        best = best_of_each(totals, GENERATIONS)
        minibatches = settings.num_minibatches
        parts = [best[i % minibatches :: minibatches] for i in range(steps)]
        for part in filter(None, parts):
            with ours.compute.autocast():
                loss = -body_logprobs(
                    model,
                    [(sampled.prompt_ids[r], sampled.ids[r]) for r in part],
                ).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            ours.policy.merge()
            schedule.step()
    return LoadedModel(model.eval(), ours.tokenizer)


def relieved_of_length(
    rewards: list[float], prompts: list[str], sampled: Completions
) -> list[float]:
    """Rewards less what length among siblings explains, as PPO's advantages:
    each is that of a response of one token."""
    totals = torch.tensor(rewards)[:, None]
    tokens = torch.tensor([len(ids) for ids in sampled.ids])
    longer = length.advantage_of(
        length.log_lengths(prompts, sampled.judged, tokens),
        torch.tensor(sampled.finished),
        GENERATIONS,
    )
    mask = torch.ones_like(totals, dtype=torch.bool)
    left = length.without_length(totals, totals, mask, longer, drift=0.0)
    return left[:, 0].tolist()


def best_of_each(rewards: list[float], size: int) -> list[int]:
    """The place of the best of each `size` neighbours; the first of equals."""
    return [
        max(range(begin, begin + size), key=lambda place: rewards[place])
        for begin in range(0, len(rewards), size)
    ]


def report(
    found: str, logs: Mapping[str, Mapping[str, Any]], params: Params
) -> str:
    """What `stylerl evaluate` said, with command, date and machine."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    command = " ".join(
        ["python", "benchmarks/bench_baselines.py", *sys.argv[1:]]
    )
    spent = ", ".join(
        f"{name} {log['seconds']:.0f} with {log['threads']} threads"
        for name, log in logs.items()
    )
    return "\n".join(
        [
            "# PPO by each reward, RLOO, GRPO, RAFT, DPO and APO",
            "",
            f"{datetime.date.today()}, {platform.machine()}, "
            f"{os.cpu_count()} cores, load {load}, seed {params.seed}: "
            f"`{command}`",
            "",
            "One training run each, of "
            f"{params.ppo.updates * params.ppo.batch_size:,} episodes. "
            f"Seconds of training: {spent or 'none'}.",
            "",
            found,
        ]
    )


if __name__ == "__main__":
    main()
