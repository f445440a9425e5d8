"""Token-level reward: the part of a score that belongs to single tokens.

A reward for the whole response leaves it to many samples to find the tokens
that earned it.  A linter knows them: a `TokenReward` is a character
of the completion and an amount, which becomes the reward of the token that
wrote it.  The last action gets the rest of the score, so that the rewards of
a response sum to its score, unless `ppo.credit_weight` counts such amounts
more than once.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from stylerl.errors import TrainingError
from stylerl.judge.positions import token_at
from stylerl.lm.sampling import decode
from stylerl.reward.functions import TokenReward


def assign_to_tokens(
    tokenizer: PreTrainedTokenizerBase,
    responses: Sequence[Sequence[int]],
    rewards: Sequence[Sequence[TokenReward]],
) -> Tensor:
    """The token rewards of each response, (B, R), 0 elsewhere.

    Raises:
        TrainingError: not one list of finite token rewards a response.
    """
    placed = torch.zeros(len(responses), max(map(len, responses)))
    try:
        for row, (ids, charges) in enumerate(
            zip(responses, rewards, strict=True)
        ):
            offsets = token_offsets(tokenizer, ids) if charges else []
            for position, amount in charges:
                placed[row, token_at(offsets, position)] += amount
    except (TypeError, ValueError) as error:
        raise TrainingError(
            "ppo.credit: token needs a list of TokenRewards for each episode; "
            f"got another thing ({error}): check the grader"
        ) from error
    if not placed.isfinite().all():
        raise TrainingError(
            "a token reward must be finite; a sum of them is not: check the "
            "grader"
        )
    return placed


def token_offsets(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]
) -> list[tuple[int, int]]:
    """(start, end) of each token in the decoded text, in characters.

    The tokens are those that were sampled; their text is never encoded
    again.  Where several tokens encode one character, the first of them
    owns it, and the others are empty and start after it; so is the eos that
    ends the text, and is no part of it.
    """
    written = len(ids) - (ids[-1] == tokenizer.eos_token_id)
    ends = (min(end, written) for end in range(len(ids) + 1))
    prefixes = (len(decode(tokenizer, list(ids[:end]))) for end in ends)
    # A prefix that ends within a character decodes to a replacement sign,
    # so its length may fall again when the character is complete.
    bounds = list(accumulate(prefixes, max))
    return list(zip(bounds, bounds[1:], strict=False))
