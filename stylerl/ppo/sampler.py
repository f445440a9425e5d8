"""Episodes for an update: sampled, graded and scored by policy and reference.

Each rank samples and scores its share of a batch; then all have all of it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import PPOConfig
from stylerl.errors import TrainingError
from stylerl.lm.sampling import Completions, generate
from stylerl.ppo import rollouts
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
        mine = self._share(prompts, seed, phase)
        # After `_share`'s two steps: log pi_old and log pi_ref, by forward
        # passes.
        with phase("score"):
            scored = score(self.policy, self.reference, mine, self.compute)
        scored = dataclasses.replace(scored, seconds=phase.seconds)
        return rollouts.interleave(self.ranks.gather(scored))

    def samples(self, prompts: Sequence[str], seed: int) -> SampledRollouts:
        """One graded completion for each prompt, not scored by the models."""
        mine = self._share(prompts, seed, Stopwatch())
        return rollouts.interleave(self.ranks.gather(mine))

    def _share(
        self, prompts: Sequence[str], seed: int, phase: Stopwatch
    ) -> SampledRollouts:
        """The episodes of this rank, with their rewards."""
        rows = self.ranks.share(range(len(prompts)))
        texts = [prompts[row] for row in rows]
        self.policy.eval()
        # 1. Tokens, from pi_old.
        with phase("generate"):
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
        # 2. Rewards, by the grader.
        with phase("judge"):
            return self._judge(texts, sampled)

    def _judge(
        self, texts: list[str], sampled: Completions
    ) -> SampledRollouts:
        """The completions with their rewards.

        Raises:
            TrainingError: the grader gives none.
        """
        whole = getattr(self.grader, "whole_lines", False)
        judged = sampled.judged if whole else sampled.texts
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
