"""SkyRL 0.3: a reward for each token, and advantages that keep its place.

`python -m stylerl.engines.skyrl_generator KEY=VALUE ...` is SkyRL's own entry
point with a generator whose `rewards` have every token's own, and an estimator
that leaves them where they are.  docs/howto/trainers.md has the configuration.
"""

import asyncio
import sys
from typing import Any

import ray
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints import main_base
from skyrl.train.generators import base
from skyrl.train.generators.utils import get_rollout_metrics

from stylerl.engines.token_level import (
    advantages,
    encode_messages,
    rewards_of,
)

# SkyRL's data set asks the tokenizer for one: messages, one after the other.
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"

ppo_utils.register_advantage_estimator("stylerl")(advantages)


class StyleGenerator(base.GeneratorInterface):  # type: ignore[misc]
    """Lets the policy continue prompts, and scores them by params.yaml.

    The column `extra_info` may have those of `TextReward`.
    """

    def __init__(self, tokenizer: Any, client: Any) -> None:
        """Sample from an inference client of SkyRL's."""
        self.tokenizer, self.client = tokenizer, client

    async def generate(self, batch: base.GeneratorInput) -> Any:
        """One response of each prompt, with its tokens' rewards."""
        # 1. Sample.
        asked = [encode_messages(self.tokenizer, p) for p in batch["prompts"]]
        given = [prompt_ids for _, prompt_ids in asked]
        settings = batch["sampling_params"]
        sampled = await self.client.generate(
            {"prompt_token_ids": given, "sampling_params": settings}
        )
        ids = sampled["response_ids"]
        # 2. Score.
        extras = batch["env_extras"] or [{}] * len(ids)
        jobs = [
            rewards_of(self.tokenizer, prompt, row, extra.get("extra_info"))
            for (prompt, _), row, extra in zip(asked, ids, extras, strict=True)
        ]
        rewards = await asyncio.gather(*jobs)
        return base.GeneratorOutput(
            prompt_token_ids=given,
            response_ids=ids,
            rewards=rewards,
            loss_masks=[[1] * len(row) for row in ids],
            stop_reasons=sampled["stop_reasons"],
            rollout_metrics=get_rollout_metrics(ids, rewards),
            rollout_logprobs=sampled.get("response_logprobs"),
        )


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


if __name__ == "__main__":  # as SkyRL's own entry point
    settings = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    main_base.validate_cfg(settings)
    main_base.initialize_ray(settings)
    ray.get(train.remote(settings))
