"""From a model folder and parameters to a trainer, in one call.

    trainer = build_trainer("artifacts/sft", params, labels)
    for step in trainer:
        ...

The reward and the prompts are those that the section `ppo` of the parameters
names; its reference is the policy as it starts.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import PreTrainedModel

from stylerl.config import Params, PPOConfig
from stylerl.data.prompts import unread_prompts
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.place import Place
from stylerl.lm import encoding, models, saving
from stylerl.lm.context import PromptEncoder, context_of
from stylerl.ppo.ranks import Ranks
from stylerl.ppo.trainer import PPOTrainer
from stylerl.reward import grader, scorers

REWARD_MODELS = Path("artifacts/reward")


def build_trainer(
    model: str | Path,
    params: Params,
    labels: pd.DataFrame | None = None,
    *,
    reward_models: str | Path = REWARD_MODELS,
    checkpoints: str | Path | None = None,
    places: Mapping[str, Place] | None = None,
) -> PPOTrainer:
    """Put models, prompts and reward together.

    Args:
        model: folder or hub name of the model to start from.
        params: the sections ppo and judge, and the seed.
        labels: rows of labels.parquet to draw prompts from; None where
            ppo.prompt_texts holds them.
        reward_models: the folder with classifier/ and pairwise/.
        checkpoints: a folder to resume from; None keeps none.
        places: where prompts stand, by prompt; completions of others are
            judged as files of their own.

    Raises:
        ConfigError: a part of the reward, or the judge, is not as named.
        DataError: there is no prompt.
        ModelError: a model cannot be loaded.
    """
    device, reward_models = Ranks().device, Path(reward_models)
    tokenizer = encoding.load_tokenizer(model)
    policy: Any = models.load_causal_lm(model, tokenizer=tokenizer)
    policy.to(device)
    settings, judge = params.ppo, Judge(params.judge, places=places)
    saving.tag_with_judge(policy, judge.identity)

    # Prompts, and how they are given: with the start of their files.
    above = {prompt: place.above for prompt, place in (places or {}).items()}
    encode = PromptEncoder(tokenizer, context_of(policy), above)
    prompts = _draw_prompts(params, labels, policy, encode)

    # Reward: its parts, and where in a completion the linter's was lost.
    def learned(folder: Path) -> grader.Learned:
        return grader.learned_style(scorers.load(folder, device))

    return PPOTrainer(
        settings,
        policy=policy,
        tokenizer=tokenizer,
        grader=grader.style_grader(
            judge, settings.reward, reward_models, learned
        ),
        prompts=prompts,
        seed=params.seed,
        checkpoints=checkpoints,
        encode=encode,
    )


def _draw_prompts(
    params: Params,
    labels: pd.DataFrame | None,
    policy: PreTrainedModel,
    encode: Callable[[str], list[int]],
) -> list[str]:
    """The prompts of ppo.prompt_texts, or of the training split.

    Raises:
        DataError: there is none.
    """
    settings = params.ppo
    prompts = list(settings.prompt_texts)
    if not prompts and labels is not None:
        unread = unread_prompts(labels, "train", params.seed)
        prompts = fitting_prompts(unread, settings, policy, encode)
    if not prompts:
        raise DataError(
            "ppo needs prompts: functions of the training split that SFT "
            "does not read, as their bodies were corrupted or do not comply; "
            "the labels have none that fits: raise label.snippets, lower "
            "ppo.max_new_tokens, or write some in ppo.prompt_texts"
        )
    return prompts


def fitting_prompts(
    prompts: Iterable[str],
    settings: PPOConfig,
    policy: PreTrainedModel,
    encode: Callable[[str], list[int]],
) -> list[str]:
    """The first prompts that leave the policy room to answer."""
    room = models.context_limit(policy.config) - settings.max_new_tokens
    fit = (prompt for prompt in prompts if len(encode(prompt)) <= room)
    return list(islice(fit, settings.prompts))
