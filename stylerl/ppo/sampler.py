"""Episodes for an update: sampled, graded and scored by policy and reference.

Each rank samples and scores its share of a batch; then all have all of it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import TrainingError
from stylerl.lm.sampling import Completions, generate
from stylerl.ppo import length, rollouts
from stylerl.ppo.compute import Compute, score
from stylerl.ppo.meters import Stopwatch
from stylerl.ppo.policy import Policy
from stylerl.ppo.ranks import Ranks
from stylerl.ppo.rollouts import Rollouts, SampledRollouts
from stylerl.ppo.token_rewards import assign_to_tokens
from stylerl.reward.functions import Feedback, Grader


@dataclass(frozen=True)
class Sampler:
    """Lets a policy complete prompts, and scores the completions."""

    config: PPOConfig
    policy: Policy
    reference: PreTrainedModel | None  # None: the policy, its adapters off
    tokenizer: PreTrainedTokenizerBase
    grader: Grader
    encode: Callable[[str], list[int]]  # a prompt's token ids
    ranks: Ranks
    compute: Compute

    def episodes(self, prompts: Sequence[str], seed: int) -> Rollouts:
        """One scored completion for each prompt, sampled by all ranks."""
        phase = Stopwatch()
        # 1. Tokens, from pi_old.
        with phase("generate"):
            texts, sampled = self._generate(prompts, seed)
        # 2. Rewards, by the grader.
        with phase("judge"):
            mine = self._judge(texts, sampled)
        # 3. log pi_old and log pi_ref, by forward passes.
        with phase("score"):
            scored = score(self.policy, self.reference, mine, self.compute)
        scored = dataclasses.replace(scored, seconds=phase.seconds)
        return rollouts.interleave(self.ranks.gather(scored))

    def log_lengths(self, prompts: Sequence[str], seed: int) -> Tensor:
        """log(1 + length) of a completion of each prompt, of those that end.

        The grader and the models' scores are not asked.
        """
        texts, sampled = self._generate(prompts, seed)
        tokens = torch.tensor([*map(len, sampled.ids)])
        logs = length.log_lengths(texts, self._judged(sampled), tokens)
        mine = logs[torch.tensor(sampled.finished)]
        return torch.cat(self.ranks.gather(mine))

    def _generate(
        self, prompts: Sequence[str], seed: int
    ) -> tuple[list[str], Completions]:
        """This rank's share of the prompts, and their completions."""
        rows = self.ranks.share(range(len(prompts)))
        texts = [prompts[row] for row in rows]
        self.policy.eval()
        sampled = generate(
            self.policy.model,
            self.tokenizer,
            texts,
            **self.config.sampling,
            seed=seed,
            rows=rows,
            batch_size=self.config.batch_size,
            bf16=self.compute.bf16,
            encode=self.encode,
        )
        return texts, sampled

    def _judged(self, sampled: Completions) -> list[str]:
        """What reward and lengths see of the completions."""
        whole = getattr(self.grader, "whole_lines", False)
        return sampled.judged if whole else sampled.texts

    def _judge(
        self, texts: list[str], sampled: Completions
    ) -> SampledRollouts:
        """The completions with their rewards.

        Raises:
            TrainingError: the grader gives none.
        """
        judged = self._judged(sampled)
        # Copies, since a grader of the user's may change what it is given.
        graded = self.grader([*texts], [*judged], [*sampled.finished])
        parts = isinstance(graded, Feedback) and rollouts.as_columns(
            graded.reward, len(texts), "reward"
        )
        if not parts:
            raise TrainingError(
                "a grader must give a Feedback with a reward; got "
                f"{graded!r:.80}: wrap a reward function by by_reward"
            )
        tokens = graded.tokens
        if tokens is None or self.config.credit == "response":
            tokens = [[] for _ in texts]
        pairs = zip(sampled.prompt_ids, sampled.ids, strict=True)
        return SampledRollouts(
            prompts=texts,
            completions=sampled.texts,
            judged=judged,
            finished=sampled.finished,
            input_ids=[[*prompt, *response] for prompt, response in pairs],
            prompt_lengths=torch.tensor([*map(len, sampled.prompt_ids)]),
            response_lengths=torch.tensor([*map(len, sampled.ids)]),
            reward_parts=parts,
            monitored=rollouts.as_columns(
                graded.monitored, len(texts), "monitored"
            ),
            token_rewards=assign_to_tokens(
                self.tokenizer, sampled.ids, tokens
            ),
        )
