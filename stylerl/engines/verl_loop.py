"""veRL 0.9: a reward for each token, and advantages that keep its place.

veRL puts a reward on the last token of a response, and its group estimators
sum what a response got.  Here are an agent loop whose `rm_scores` have every
token's own, and an estimator that leaves them where they are: `stylerl`, by
both registries.  docs/howto/trainers.md has the configuration.
"""

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

from stylerl.engines.token_level import (
    advantages,
    encode_messages,
    rewards_of,
)

NAME = "stylerl"


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

    `extra_info` may have the columns of `TextReward`.
    """

    async def run(
        self, sampling_params: dict[str, Any], **row: Any
    ) -> AgentLoopOutput:
        """One response of one row of the data set."""
        prompt, given = encode_messages(self.tokenizer, row["raw_prompt"])
        sampled = await self.server_manager.generate(
            request_id=uuid4().hex,
            prompt_ids=given,
            sampling_params=sampling_params,
        )
        most = self.rollout_config.response_length
        ids, logprobs = sampled.token_ids[:most], sampled.log_probs
        info = row.get("extra_info")
        rewards = await rewards_of(self.tokenizer, prompt, ids, info)
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


@register_adv_est(NAME)  # type: ignore[untyped-decorator]
def estimator(*, config: Any = None, **batch: Any) -> tuple[Tensor, Tensor]:
    """`token_level.advantages`, with `algorithm.lam` of veRL's `config`."""
    lambd = 1.0 if config is None else float(config.lam)
    return advantages(**batch, lambd=lambd)
