"""TRL's trainers on PPO's model, prompts, optimiser and, of RL, reward.

RLOO (Ahmadian et al., arXiv 2402.14740) and GRPO (Shao et al., arXiv
2402.03300) compare GENERATIONS completions of a prompt, where PPO compares
ppo.group_size by default.  Their rate is PPO's and not tuned for them; what
params.yaml has no setting for is TRL's default: GRPO's loss is DAPO's.

DPO (Rafailov et al., arXiv 2305.18290) and APO (D'Oosterlinck et al., arXiv
2408.06266) learn to write as the fixer does, which is there at inference as
well, with PASSES passes over their pairs, at a rate of their own.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from sequence_reward import GENERATIONS, longer_than_siblings, total_rewards

from stylerl import draws
from stylerl.errors import DataError
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.judge import Judge, fixer
from stylerl.lm.cut import whole_lines
from stylerl.lm.sampling import generate
from stylerl.ppo import PPOTrainer, formulas, length
from stylerl.ppo.learner import ADAM_EPS, MAX_GRAD_NORM
from stylerl.supervised.training import MergeAdapters

PAIRS = 8  # of DPO's optimiser steps, which read two texts for each
PASSES = 2  # over its pairs, of GENERATIONS completions a prompt
# Of DPO's adapters: at PPO's it forgets to write, the accuracy of its tokens
# falls from 0.7 to 0.3 in 30 steps.
PAIR_RATE = 1e-4


def run_trl(
    ours: PPOTrainer, method: str, group: int = GENERATIONS, *watching: Any
) -> LoadedModel:
    """TRL's trainer on the same model, prompts, reward and episodes.

    Args:
        ours: the trainer whose model, prompts, reward and settings it takes.
        method: RLOO or GRPO.
        group: completions of a prompt.
        watching: callbacks of its own that TRL's trainer is given.
    """
    import trl
    from datasets import Dataset

    settings, tokenizer = ours.config, ours.tokenizer
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
                **optimiser_of(ours),
            ),
            callbacks=[*merging(ours), *watching],
        )
        return trained(trainer, tokenizer)


def as_given(ours: PPOTrainer, prompt: str) -> str:
    """A prompt as our sampler gives it: begun, and below what is above it."""
    return str(ours.tokenizer.decode(ours.sampler.encode(prompt)))


def optimiser_of(ours: PPOTrainer) -> dict[str, Any]:
    """Settings of TRL's trainers: our optimiser, and nothing kept or sent."""
    return {
        "learning_rate": ours.config.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": formulas.WARMUP,
        "max_grad_norm": MAX_GRAD_NORM,
        "adam_epsilon": ADAM_EPS,
        "gradient_checkpointing": False,
        "bf16": ours.compute.bf16,
        "use_cpu": not torch.cuda.is_available(),
        "seed": ours.seed,
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


def run_dpo(ours: PPOTrainer, loss: str) -> LoadedModel:
    """TRL's trainer on what the model wrote and what the fixer made of it."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    settings, tokenizer = ours.config, ours.tokenizer
    prompts = [p for p in ours.prompts for _ in range(GENERATIONS)]
    sampled = generate(
        ours.policy.model,
        tokenizer,
        prompts,
        **settings.sampling,
        seed=draws.seed_of(ours.seed, "autofix"),
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
                **optimiser_of(ours) | {"learning_rate": PAIR_RATE},
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
