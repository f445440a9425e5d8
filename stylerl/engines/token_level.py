"""The reward of every token of a response, for trainers that take one."""

from collections.abc import Sequence

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from stylerl.ppo.token_rewards import assign_to_tokens
from stylerl.reward.other_trainers import Scored


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
    for row, charged, own in zip(scored, located, ids, strict=True):
        each = credit_weight * charged[: len(own)]
        each[-1] += row.score - charged.sum()
        rewards.append(each)
    return rewards
