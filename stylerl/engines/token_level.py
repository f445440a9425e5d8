"""Token credit for other trainers: rewards and advantages by token.

An engine gives the tokens that it sampled, and gets a reward for each; where
it takes advantages, or lets one register an estimator, these are there too.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from stylerl.lm.encoding import encode_code, encode_prompt
from stylerl.lm.sampling import decode
from stylerl.ppo import formulas
from stylerl.ppo.token_rewards import assign_to_tokens
from stylerl.reward.other_trainers import Origin, Scored, TextReward

PARAMS = "STYLERL_PARAMS"  # variable of the environment: a params.yaml
LOADING = Lock()


def token_rewards(
    scored: Sequence[Scored],
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[Sequence[int]],
    credit_weight: float = 1.0,
) -> list[Tensor]:
    """The rewards of each response, (R,), as `Learner.rewards` has them.

    A violation's token is charged what the response loses by it,
    `credit_weight` times; the last token gets the rest of the score.  With
    weight 1 the rewards of a response sum to its score.

    Args:
        scored: what each completion is worth.
        tokenizer: the policy's.
        ids: the tokens that were sampled, the closing eos included; their
            text is the completion that was scored.
        credit_weight: as `ppo.credit_weight`.

    Raises:
        TrainingError: an amount is not finite.
    """
    located = assign_to_tokens(tokenizer, ids, [row.tokens for row in scored])
    rewards = []
    for row, charged, response in zip(scored, located, ids, strict=True):
        of_tokens = credit_weight * charged[: len(response)]
        of_tokens[-1] += row.score - charged.sum()
        rewards.append(of_tokens)
    return rewards


def encode_messages(
    tokenizer: Any, messages: Sequence[Mapping[str, str]]
) -> tuple[str, list[int]]:
    """A prompt, and its tokens: what the policy is to continue.

    The prompt is the text of the last message, and what stands above it that
    of the others, without a chat template.
    """
    *above, prompt = (message["content"] for message in messages)
    context = encode_code(tokenizer, "".join(above))
    return prompt, encode_prompt(tokenizer, prompt, context)


async def rewards_of(
    tokenizer: Any,
    prompt: str,
    ids: Sequence[int],
    info: Mapping[str, Any] | None,
) -> list[float]:
    """The reward of each sampled token, by the file that PARAMS names.

    A thread judges, so that the engine goes on.

    Args:
        tokenizer: the policy's.
        prompt: the code that was continued.
        ids: what was sampled, the closing eos included.
        info: columns of the data set; those of `TextReward` are read.
    """
    return await asyncio.to_thread(_judged, tokenizer, prompt, ids, info or {})


def _judged(
    tokenizer: Any, prompt: str, ids: Sequence[int], info: Mapping[str, Any]
) -> list[float]:
    if not ids:  # the server gave up
        return []
    with LOADING:  # a batch's threads all ask first
        reward = _reward_by(os.environ[PARAMS], tokenizer)
    ended = ids[-1] == tokenizer.eos_token_id
    text = decode(tokenizer, [*ids[:-1]] if ended else [*ids])
    columns = {name: [info.get(name)] for name in Origin._fields}
    scored = reward.scored([prompt], [text], [ids], **columns)
    weight = reward.params.ppo.credit_weight
    (rewards,) = token_rewards(scored, tokenizer, [ids], weight)
    return [float(reward) for reward in rewards]


@cache
def _reward_by(params: str, tokenizer: Any) -> TextReward:
    """The reward of a params.yaml, made once: call it under LOADING."""
    return TextReward(params, tokenizer)


def advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    lambd: float = 1.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Leave-one-out of returns to go, and these, (B, R), as in our PPO.

    `lambd` discounts what single tokens were charged; the mean of the others
    of a prompt is taken off, and all are brought to one size.  A charge on the
    last token cannot be told from the rest that it holds, and reaches the
    others whole.

    Args:
        token_level_rewards: (B, R).
        response_mask: (B, R), which tokens are a response's.
        index: (B,), which prompt a response answers.
        lambd: lambda of our PPO.
        _: what else an engine hands to its estimators.
    """
    rewards, mask = token_level_rewards, response_mask.bool()
    last = (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)
    outcomes = rewards.gather(1, last)
    located = rewards.scatter(1, last, 0.0)
    returns = formulas.returns_to_go(rewards, located, mask, lambd)
    ahead = torch.zeros_like(returns)
    for prompt in dict.fromkeys(index):
        rows = torch.tensor([i for i, p in enumerate(index) if p == prompt])
        if len(rows) > 1:
            ahead[rows] = formulas.group_advantages(
                returns[rows], outcomes[rows, 0], mask[rows], len(rows)
            )
    return ahead / formulas.deviation(ahead, mask), returns
