"""prime-rl 0.8: an advantage for each token, in the place of its GRPO.

`python -m stylerl.engines.prime_algorithm @ orch.toml` is its orchestrator,
in which the algorithm `grpo` assigns to every sampled token what token credit
says of it.  Written against src/prime_rl/orchestrator/algo/grpo.py and
routing.py at 559b447; not run, since it needs Python 3.12, vLLM and a GPU.
"""

import os
from pathlib import Path
from typing import Any

import torch
from prime_rl.entrypoints import orchestrator
from prime_rl.orchestrator import algo
from prime_rl.orchestrator.algo.base import iter_trainable_traces
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm

from stylerl import config
from stylerl.engines.token_level import PARAMS, advantages, rewards_of
from stylerl.lm.encoding import load_tokenizer
from stylerl.reward.other_trainers import Origin


class StyleAlgorithm(GRPOAlgorithm):  # type: ignore[misc]
    """Leave-one-out of returns to go, in a group, by params.yaml.

    The prompt is the task's text; fields of its data with the names of
    `TextReward`'s columns are read.
    """

    async def setup(self) -> None:
        """Load the policy's tokenizer, and lambda of our PPO."""
        self.tokenizer = load_tokenizer(self.policy_pool.model_name)
        params = config.load(Path(os.environ[PARAMS]))
        self.lambd = params.ppo.gae_lambda

    async def score_group(self, episodes: list[Any]) -> None:
        """Assign advantages to the sampled tokens of a group."""
        # 1. The rewards of what each sampled.
        rows = []
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        for trace in traces:
            data = trace.task.data
            info = {name: getattr(data, name, None) for name in Origin._fields}
            rewards = await rewards_of(
                self.tokenizer, data.prompt_text, sampled_ids(trace), info
            )
            rows.append(torch.tensor(rewards))
        # 2. The advantages of the group, which answers one prompt.
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([[len(row)] for row in rows])
        mask = torch.arange(padded.shape[1]) < lengths
        ahead, _ = advantages(padded, mask, [0] * len(rows), self.lambd)
        for trace, values, row in zip(traces, ahead, rows, strict=True):
            algo.assign_advantages(trace, values[: len(row)].tolist())


def sampled_ids(trace: Any) -> list[int]:
    """The tokens of a trace that the policy has sampled."""
    return [
        token
        for node in trace.nodes
        for token, sampled in zip(node.token_ids, node.mask, strict=True)
        if sampled
    ]


if __name__ == "__main__":
    algo.ALGORITHM_CLASSES["grpo"] = StyleAlgorithm
    orchestrator.main()
