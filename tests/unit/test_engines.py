"""The reward of every token, as other engines get it."""

import pytest
import torch
from conftest import build_tokenizer

from stylerl.engines.token_level import token_rewards
from stylerl.reward import trl_reward
from stylerl.reward.functions import TokenReward
from stylerl.reward.other_trainers import Scored

PROMPT = "def add(a, b):\n"


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        # The token of the fifth character lost 2 of the score, which is 3.
        (1.0, [0, -2, 5]),
        (4.0, [0, -8, 5]),
    ],
)
def test_the_last_token_gets_what_no_other_has(weight, expected):
    tokenizer = build_tokenizer()
    ids = [*tokenizer("ab")["input_ids"], tokenizer.eos_token_id]
    assert len(ids) == 3  # a byte is a token here
    scored = [Scored(3.0, {}, [TokenReward(1, -2.0)])]
    (rewards,) = token_rewards(scored, tokenizer, [ids], weight)
    assert rewards.tolist() == expected


@pytest.mark.parametrize(
    "text",
    ["    return a + b\n", "    return a+b\n", "    return (\n", "\tc=1;\n"],
)
def test_the_rewards_of_a_response_sum_to_its_score(text):
    tokenizer = build_tokenizer()
    reward = trl_reward({"linter": 2.5}, tokenizer)
    ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    scored = reward.scored([PROMPT], [text], [ids])
    (rewards,) = token_rewards(scored, tokenizer, [ids])
    torch.testing.assert_close(
        rewards.sum(), torch.tensor(reward([PROMPT], [text], [ids])[0])
    )
