"""Other ways from one SFT model to a compliant one, beside PPO's.

    python benchmarks/bench_baselines.py [NAME ...] [--train]

Run it in a repository whose stages are up to date, with the linter in
ppo.reward and the seed in params.yaml.  Those that are trained, in some four
hours of two cores, start at artifacts/sft and get PPO's prompts and, but for
DPO and APO, its number of episodes and its reward:

    last-token, classifier, pairwise
                our trainer, rewarded on the last token: by the linter, or
                with the classifier or the pairwise model in its place
    rloo, grpo  TRL's RLOOTrainer and GRPOTrainer, and their own defaults
                where params.yaml has no such setting: GRPO by DAPO's loss
    raft        of GENERATIONS completions of each prompt the best, then SFT
                on these; again and again
    dpo, apo    TRL's DPOTrainer, with the losses sigmoid and apo_zero, on
                what SFT wrote and the same after the fixer

RLOO, GRPO and RAFT get the reward as one number a completion.  Where
ppo.keep_length, TRL's are given it less what length explains of it among
siblings, and RAFT chooses at the price of length by which what it takes is as
long as all of it; unlike PPO, none brings back lengths that moved.  The rest
is SFT and PPO as they are, decoded otherwise:

    cold, greedy    at temperatures that people decode at
    best4, best16   with more samples for the linter to choose from

RAFT (Dong et al., arXiv 2304.06767; as a baseline of RL, arXiv 2504.11343)
takes as many optimiser steps as PPO, at PPO's rate, with no KL penalty: it
asks what choosing is worth without a policy gradient.  DPO (Rafailov et al.,
arXiv 2305.18290) and APO (D'Oosterlinck et al., arXiv 2408.06266) learn to
write as the fixer does, which is there at inference as well; they take
PASSES passes over their pairs at a rate of their own.  RLOO (Ahmadian
et al., arXiv 2402.14740) and GRPO (Shao et al., arXiv 2402.03300) compare
GENERATIONS completions of a prompt, where PPO compares ppo.group_size by
default; their learning rate is PPO's and not tuned for them.  Each model is
kept in checkpoints/baselines/ under the key of the stage `ppo`, which knows
nothing of this file: a call trains what is missing there, and no more with
--train.  `stylerl evaluate` then measures them, HumanEval's problems included.
What it found goes to benchmarks/results/runs/NAME-SEED.json, and from there
into docs/results.md (tools/rivals.py).
"""

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bench_run
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
from stylerl.lm.sampling import generate
from stylerl.lm.saving import save_model
from stylerl.pipeline import graph
from stylerl.pipeline.stage_runs import KEY
from stylerl.ppo import PPOTrainer, formulas, length
from stylerl.ppo.factory import build_trainer
from stylerl.ppo.learner import ADAM_EPS, MAX_GRAD_NORM
from stylerl.supervised.sft import body_logprobs
from stylerl.supervised.training import MergeAdapters

FILTER = Path("artifacts/filter")
LABELS = Path("artifacts/label/labels.parquet")
SFT, POLICY = Path("artifacts/sft"), Path("artifacts/ppo")
MODELS, LOG = Path("checkpoints/baselines"), "log.json"
GENERATIONS = 4  # completions of a prompt that RLOO, GRPO and RAFT compare
PAIRS = 8  # of DPO's optimiser steps, which read two texts for each
PASSES = 2  # over its pairs, of GENERATIONS completions a prompt
# Of DPO's adapters: at PPO's it forgets to write, the accuracy of its tokens
# falls from 0.7 to 0.3 in 30 steps.
PAIR_RATE = 1e-4
PRICE = 100.0  # of a unit of log length: rewards differ by less than ten
HALVINGS = 30  # of the prices from minus that up
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
            measure({name: POLICY}, config.override(params, changes))


def measure(models: Mapping[str, Path], params: Params) -> None:
    """Print how the models do beside SFT, and keep what was found.

    Args:
        models: their folders, by names of this script.
        params: of the evaluation.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        out = scratch / "out"
        folders = [SFT, *models.values()]
        print(evaluate_command.run(folders, params, out, scratch), flush=True)
        for name, model in models.items():
            found = storage.read_json(out / model.name / "evaluate.json")
            trained = storage.read_json(model / LOG) if model != POLICY else {}
            bench_run.keep(
                f"{name}-{params.seed}",
                f"python benchmarks/bench_baselines.py {name}",
                {"seconds": None, **trained, "evaluate": found},
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
        "raft": lambda: run_raft(params),
        "rloo": lambda: run_trl(params, "RLOO"),
        "grpo": lambda: run_trl(params, "GRPO"),
        "dpo": lambda: run_dpo(params, "sigmoid"),
        "apo": lambda: run_dpo(params, "apo_zero"),
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
        known = [given[prompt] for prompt in prompts]
        return trl_rewards(ours, known, group=group, **sampled)

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
    group: int,
    **_: Any,
) -> list[float]:
    """Rewards for TRL, less what length explains of them where it is kept.

    Args:
        ours: the trainer whose reward it is.
        prompts: those of neighbours alike.
        completions: their texts.
        completion_ids: their tokens.
        group: how many neighbours have the same prompt.
    """
    eos = ours.tokenizer.eos_token_id
    finished = [ids[-1:] == [eos] for ids in completion_ids]
    judged = [
        text if done else whole_lines(text)
        for text, done in zip(completions, finished, strict=True)
    ]
    totals = total_rewards(ours, prompts, judged, finished)
    if not ours.config.keep_length:
        return totals
    tokens = [len(ids) for ids in completion_ids]
    longer = longer_than_siblings(prompts, judged, tokens, finished, group)
    # A completion counts as one token, which earned all of it.
    alone = torch.tensor(totals)[:, None]
    mask = torch.ones_like(alone, dtype=torch.bool)
    left = length.without_length(alone, alone, mask, longer, drift=0.0)
    return left[:, 0].tolist()


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


def longer_than_siblings(
    prompts: list[str],
    judged: list[str],
    tokens: list[int],
    finished: list[bool],
    group: int,
) -> torch.Tensor:
    """By how much the log length is above the mean of its prompt's, (B,)."""
    logs = length.log_lengths(prompts, judged, torch.tensor(tokens))
    return length.advantage_of(logs, torch.tensor(finished), group)


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
        best = best_of_each(totals, GENERATIONS)
        if settings.keep_length:
            longer = longer_than_siblings(
                prompts,
                sampled.judged,
                [len(ids) for ids in sampled.ids],
                sampled.finished,
                GENERATIONS,
            )
            best = best_as_long(totals, longer.tolist(), GENERATIONS)
            above = longer[best].mean().item()
            print(f"update {update}: log length {above:+.3f} of siblings'")
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


def best_of_each(rewards: list[float], size: int) -> list[int]:
    """The place of the best of each `size` neighbours; the first of equals."""
    return [
        max(range(begin, begin + size), key=lambda place: rewards[place])
        for begin in range(0, len(rewards), size)
    ]


def best_as_long(
    rewards: Sequence[float], longer: Sequence[float], size: int
) -> list[int]:
    """The best of each, at the price of length that keeps lengths.

    Those chosen are shorter the higher the price is; it is halved in on from
    both sides, and of what is tried the choice nearest to its neighbours'
    mean length is taken.

    Args:
        rewards: of completions.
        longer: by how much their log lengths are above their neighbours'.
        size: how many neighbours one is chosen of.
    """
    tried: dict[float, list[int]] = {}  # by how much longer they are
    low, high = -PRICE, PRICE
    for _ in range(HALVINGS):
        price = (low + high) / 2
        pairs = zip(rewards, longer, strict=True)
        priced = [reward - price * above for reward, above in pairs]
        best = best_of_each(priced, size)
        total = sum(longer[place] for place in best)
        tried[abs(total)] = best
        low, high = (price, high) if total > 0 else (low, price)
    return tried[min(tried)]


if __name__ == "__main__":
    main()
