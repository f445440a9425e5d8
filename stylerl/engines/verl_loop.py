"""veRL 0.9: a reward for each token, and advantages that keep its place.

veRL puts a reward on the last token of a response, and its group estimators
sum what a response got.  Here are an agent loop whose `rm_scores` have every
token's own, and an estimator that leaves them where they are: `stylerl`, by
both registries.  docs/howto/trainers.md has the configuration.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopOutput,
    register,
)
from verl.trainer.ppo.core_algos import register_adv_est

from stylerl.engines.token_level import token_rewards
from stylerl.lm.models import encode_code, encode_prompt
from stylerl.lm.sampling import decode
from stylerl.ppo import formulas
from stylerl.reward import trl_reward
from stylerl.reward.other_trainers import Origin, TextReward, message_text

NAME = "stylerl"
PARAMS = "STYLERL_PARAMS"  # variable of the environment: a params.yaml


class TokenRewarded(AgentLoopOutput):  # type: ignore[misc]
    """A response with a reward for each of its tokens."""

    rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """The tensors of a trajectory; `rm_scores` is (R,)."""
        # Its own would put the sum on the last token, which need not be.
        plain = self.model_copy(update={"reward_score": None})
        fields: dict[str, Any] = AgentLoopOutput.as_dict(plain)
        fields["rm_scores"] = torch.tensor(fields.pop("rewards"))
        return fields


@register(NAME)
class StyleLoop(AgentLoopBase):  # type: ignore[misc]
    """Lets the policy continue a prompt, and scores it by params.yaml.

    The prompt is the text of the last message, and what stands above it that
    of the others, without a chat template; `extra_info` may have the columns
    of `TextReward`.
    """

    async def run(
        self, sampling_params: dict[str, Any], **row: Any
    ) -> AgentLoopOutput:
        """One response of one row of the data set."""
        *above, prompt = map(message_text, row["raw_prompt"])
        context = encode_code(self.tokenizer, "".join(above))
        given = encode_prompt(self.tokenizer, prompt, context)
        sampled = await self.server_manager.generate(
            request_id=uuid4().hex,
            prompt_ids=given,
            sampling_params=sampling_params,
        )
        most = self.rollout_config.response_length
        ids, logprobs = sampled.token_ids[:most], sampled.log_probs
        rewards = await asyncio.to_thread(
            rewards_of,
            self.tokenizer,
            prompt,
            ids,
            row.get("extra_info") or {},
        )
        return TokenRewarded(
            prompt_ids=given,
            response_ids=ids,
            response_mask=[1] * len(ids),
            response_logprobs=logprobs[:most] if logprobs else None,
            reward_score=sum(rewards),
            metrics={},
            num_turns=2,
            extra_fields={**sampled.extra_fields, "reward_extra_info": {}},
            rewards=rewards,
        )


@cache
def reward_by(params: str, tokenizer: Any) -> TextReward:
    """The reward of a params.yaml, read once."""
    return trl_reward(params, tokenizer)


def rewards_of(
    tokenizer: Any, prompt: str, ids: Sequence[int], info: Mapping[str, Any]
) -> list[float]:
    """The reward of each sampled token, by the file that PARAMS names."""
    if not ids:  # the server gave up
        return []
    reward = reward_by(os.environ[PARAMS], tokenizer)
    ended = ids[-1] == tokenizer.eos_token_id
    text = decode(tokenizer, [*ids[:-1]] if ended else [*ids])
    columns = {name: [info.get(name)] for name in Origin._fields}
    scored = reward.scored([prompt], [text], [ids], **columns)
    weight = reward.params.ppo.credit_weight
    (rewards,) = token_rewards(scored, tokenizer, [ids], weight)
    return [float(reward) for reward in rewards]


@register_adv_est(NAME)  # type: ignore[untyped-decorator]
def advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[str],
    config: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Leave-one-out of returns to go, and these, (B, R), as in our PPO.

    `algorithm.lam` discounts what single tokens were charged; the mean of
    the others of a prompt is taken off, and all are brought to one size.  A
    charge on the last token cannot be told from the rest that it holds, and
    reaches the others whole.

    Args:
        token_level_rewards: (B, R).
        response_mask: (B, R).
        index: (B,), which prompt a response answers.
        config: the section `algorithm`.
    """
    mask = response_mask.bool()
    last = (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)
    outcomes = token_level_rewards.gather(1, last)
    located = token_level_rewards.scatter(1, last, 0.0)
    decay = float(config.lam) if config is not None else 1.0
    returns = formulas.returns_to_go(token_level_rewards, located, mask, decay)
    ahead = torch.zeros_like(returns)
    for prompt in dict.fromkeys(index):
        rows = torch.tensor([i for i, p in enumerate(index) if p == prompt])
        if len(rows) > 1:
            ahead[rows] = formulas.group_advantages(
                returns[rows], outcomes[rows, 0], mask[rows], len(rows)
            )
    return ahead / formulas.deviation(ahead, mask), returns
