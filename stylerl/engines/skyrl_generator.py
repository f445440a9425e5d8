"""SkyRL 0.3: a reward for each token, and advantages that keep its place.

`python -m stylerl.engines.skyrl_generator KEY=VALUE ...` is SkyRL's own entry
point with a generator whose `rewards` have every token's own, and an estimator
that leaves them where they are.  docs/howto/trainers.md has the configuration.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import ray
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    register_advantage_estimator as registered,
)
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints import main_base
from skyrl.train.generators import base
from skyrl.train.generators.utils import get_rollout_metrics
from torch import Tensor

from stylerl.engines.token_level import advantages, rewards_of
from stylerl.lm.encoding import encode_code, encode_prompt
from stylerl.reward.other_trainers import message_text

NAME = "stylerl"
# SkyRL's data set asks the tokenizer for one: messages, one after the other.
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


class StyleGenerator(base.GeneratorInterface):  # type: ignore[misc]
    """Lets the policy continue prompts, and scores them by params.yaml.

    A prompt is the text of the last message, and what stands above it that of
    the others; the column `extra_info` may have those of `TextReward`.
    """

    def __init__(self, tokenizer: Any, client: Any) -> None:
        """Sample from an inference client of SkyRL's."""
        self.tokenizer, self.client = tokenizer, client

    async def generate(self, asked: base.GeneratorInput) -> Any:
        """One response of each prompt, with its tokens' rewards."""
        # 1. Sample.
        texts = [[*map(message_text, p)] for p in asked["prompts"]]
        given = [
            encode_prompt(
                self.tokenizer,
                prompt,
                encode_code(self.tokenizer, "".join(above)),
            )
            for *above, prompt in texts
        ]
        settings = asked["sampling_params"]
        sampled = await self.client.generate(
            {"prompt_token_ids": given, "sampling_params": settings}
        )
        ids = sampled["response_ids"]
        # 2. Score.
        rows = asked["env_extras"] or [{}] * len(ids)
        jobs = [
            asyncio.to_thread(
                rewards_of, self.tokenizer, text[-1], own,
                row.get("extra_info") or {},
            )
            for text, own, row in zip(texts, ids, rows, strict=True)
        ]  # fmt: skip
        rewards = await asyncio.gather(*jobs)
        return base.GeneratorOutput(
            prompt_token_ids=given,
            response_ids=ids,
            rewards=rewards,
            loss_masks=[[1] * len(own) for own in ids],
            stop_reasons=sampled["stop_reasons"],
            rollout_metrics=get_rollout_metrics(ids, rewards),
            rollout_logprobs=sampled.get("response_logprobs"),
        )


@registered(NAME)  # type: ignore[untyped-decorator]
def estimator(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[str],
    lambd: float = 1.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """`token_level.advantages`, with `trainer.algorithm.lambd`."""
    return advantages(token_level_rewards, response_mask, index, lambd)


class StyleExperiment(main_base.BasePPOExp):  # type: ignore[misc]
    """SkyRL's training, with this generator."""

    def get_train_dataset(self) -> Any:
        """The prompts, of which none is a conversation."""
        self.tokenizer.chat_template = TEMPLATE
        return super().get_train_dataset()

    def get_generator(self, _: Any, tokenizer: Any, client: Any) -> Any:
        """The generator."""
        return StyleGenerator(tokenizer, client)


@ray.remote(num_cpus=1)  # type: ignore[untyped-decorator]
def train(cfg: SkyRLTrainConfig) -> None:
    """Train, in a process of Ray's."""
    StyleExperiment(cfg).run()


def main() -> None:
    """What SkyRL's own entry point does, with this experiment."""
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    main_base.validate_cfg(cfg)
    main_base.initialize_ray(cfg)
    ray.get(train.remote(cfg))


if __name__ == "__main__":
    main()
