"""Dense credit: what of a reward belongs to single tokens of a response.

A reward for the whole response leaves it to the value function to find the
token that earned it.  Where the reward knows better, as a linter does, it may
say so: a `Charge` names a character of the completion and an amount, which
then stands on the token that wrote it.  What is left of the score stands on
the last action, so that the sum over a response is the score in any case.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from stylerl.errors import TrainingError
from stylerl.judge.positions import token_at
from stylerl.lm.sampling import decode
from stylerl.reward.functions import Charge


def on_tokens(
    tokenizer: PreTrainedTokenizerBase,
    responses: Sequence[Sequence[int]],
    charges: Sequence[Sequence[Charge]],
) -> Tensor:
    """The charges of each response on its tokens, (B, R), 0 elsewhere.

    Raises:
        TrainingError: not one list of finite charges a response.
    """
    if len(charges) != len(responses):
        raise TrainingError(
            "ppo.credit: token needs one list of charges an episode; got "
            f"{len(charges)} for {len(responses)}"
        )
    placed = torch.zeros(len(responses), max(map(len, responses)))
    for row, (ids, own) in enumerate(zip(responses, charges, strict=True)):
        offsets = token_offsets(tokenizer, ids) if own else []
        for position, amount in own:
            placed[row, token_at(offsets, position)] += amount
    if not placed.isfinite().all():
        raise TrainingError(
            "a charge must be finite: check the credit function"
        )
    return placed


def token_offsets(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]
) -> list[tuple[int, int]]:
    """(start, end) of each token in the decoded text, in characters.

    The tokens are those that were sampled; their text is never encoded
    again.  A token that ends within a character owns it, and the one that
    completes it begins behind it.
    """
    prefixes = (
        len(decode(tokenizer, list(ids[:end]))) for end in range(len(ids) + 1)
    )
    bounds = list(accumulate(prefixes, max))
    return list(zip(bounds, bounds[1:], strict=False))
