"""PPO's reward as one number a completion, for RLOO, GRPO and RAFT."""

import torch

from stylerl.ppo import PPOTrainer, length

GENERATIONS = 4  # completions of a prompt that they compare


def total_rewards(
    ours: PPOTrainer,
    prompts: list[str],
    judged: list[str],
    finished: list[bool],
) -> list[float]:
    """What our trainer would give each episode, its parts summed."""
    parts = dict(ours.sampler.grader(prompts, judged, finished).reward)
    totals = [sum(each) for each in zip(*parts.values(), strict=True)]
    missing = ours.config.missing_eos_penalty
    return [
        total if done else total - missing
        for total, done in zip(totals, finished, strict=True)
    ]


def longer_than_siblings(
    prompts: list[str],
    judged: list[str],
    tokens: list[int],
    finished: list[bool],
    group: int,
) -> torch.Tensor:
    """By how much the log length is above the mean of its prompt's, (B,)."""
    logs = length.log_lengths(prompts, judged, torch.tensor(tokens))
    return length.advantage_of(logs, torch.tensor(finished), group)
