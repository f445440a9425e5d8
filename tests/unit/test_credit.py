"""Dense credit: each violation on the token that wrote it, the sum kept."""

import pytest
import torch
from conftest import build_trainer, grader
from test_ppo import watched

from stylerl.errors import TrainingError
from stylerl.ppo import formulas
from stylerl.ppo.token_rewards import assign_to_tokens, token_offsets
from stylerl.reward.functions import TokenReward
from stylerl.reward.grade import grade, style, token_rewards
from stylerl.reward.grader import StyleGrader

PROMPT = "def f( x):"  # E201 is the prompt's own


def byte_ids(tokenizer, text):
    """One token a byte: what no encoder would write, but a sampler may."""
    letters = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
    symbols = "".join(piece for piece, _ in letters)
    return tokenizer.convert_tokens_to_ids(list(symbols))


def test_offsets_are_of_the_tokens_that_were_sampled(tokenizer):
    """`é` is two bytes, `漢` three: the first token of each owns it."""
    ids = [*byte_ids(tokenizer, "aé漢b"), 1]
    expected = [(0, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 3), (3, 4), (4, 4)]
    assert token_offsets(tokenizer, ids) == expected


def test_rewards_are_assigned_to_tokens(tokenizer):
    """A character before the text is the first token's, one behind it the
    last one's: here eos, whose act it was to end there."""
    ids = [*byte_ids(tokenizer, "aé漢b"), 1]
    places = [TokenReward(at, 2.0**at) for at in range(5)] + [
        TokenReward(-3, 0.5)
    ]
    placed = assign_to_tokens(tokenizer, [ids, ids[:1]], [places, []])
    assert placed.tolist() == [[1.5, 2, 0, 4, 0, 0, 8, 16], [0.0] * 8]


@pytest.mark.parametrize(
    ("completion", "expected", "left"),
    [
        ("\n    return x\n", [], 0),
        # E222 behind `=`, E271 behind `return`: 1 - 0.8 / 2 = 0.6 for two
        ("\n    y =  x\n    return  y\n", [(8, -0.3), (22, -0.3)], 0),
        # W292 at the end, alone: 1 - 0.9 / 2 = 0.55
        ("\n    return x", [(13, -0.55)], 0),
        # F821, a name that is whole, and undefined, at its last letter
        ("\n    return total\n", [(16, -0.55)], 0),
        # E501 at column 80, within a word of columns 77 to 86
        ("\n    return '" + 63 * "a" + " bbbbbbbbbb'\n", [(80, -0.55)], 0),
        # does not parse: all of it is left to the last action
        ("\n    return (\n", [], -1),
        # only a docstring, which is no statement
        ('\n    """Say."""\n', [], -1),
        ('\n    """Say."""  \n', [], -1),  # nor is W291 charged then
        # F841: `y` has no use, which is not the fault of where it is bound
        ("\n    y = 1\n    return  x\n", [(21, -0.3)], -0.3),
    ],
)
def test_the_linter_rewards_tokens(judge, completion, expected, left):
    (graded,) = grade(judge, [PROMPT], [completion], [True])
    found = token_rewards(graded)
    assert found == [
        TokenReward(at, pytest.approx(amount)) for at, amount in expected
    ]
    lost = left + sum(charge.amount for charge in found)
    assert 1 + lost == pytest.approx(style(graded))


@pytest.mark.parametrize("code", ["C901", "PLR0912"])
def test_what_is_said_of_a_body_as_a_whole_charges_no_token(judge, code):
    (graded,) = grade(judge, [PROMPT], ["\n    return  x\n"], [True])
    (violation,) = graded.as_ended.violations  # E271, by what it is called
    renamed = (violation._replace(code=code),)
    whole = graded.as_ended._replace(violations=renamed)
    assert token_rewards(graded)
    assert token_rewards(graded._replace(as_ended=whole)) == []


def test_charges_are_shares_of_what_the_style_reward_is(judge):
    """E222 alone: 1 - 0.9 / 2 = 0.55 of the style reward."""
    text = "\n    return x +  1\n"
    grades = StyleGrader(judge, {"linter": 2.0}, {}, {})
    found = grades([PROMPT], [text], [True])
    (charge,) = found.tokens[0]
    assert charge.amount == pytest.approx(-0.55 * 2)
    assert found.reward == {"style": [pytest.approx(2 + charge.amount)]}


def trainer(**changes):
    credit = changes.pop(
        "credit_function",
        lambda p, texts: [[TokenReward(1, -0.5)] for _ in texts],
    )
    settings = {
        "batch_size": 8,
        "num_minibatches": 2,
        "max_new_tokens": 8,
        "kl_coef": 0.0,
        **changes,
    }
    judging = grader(
        lambda p, texts: [float(len(t) % 3) for t in texts], credit=credit
    )
    return build_trainer(judging, ["x", "def f():\n"], **settings)


def test_the_rewards_of_a_response_sum_to_its_score():
    ours = trainer(missing_eos_penalty=0.25)
    batch = ours.rollout()
    rewards = ours.learner.rewards(batch).tokens
    missing = 0.25 * ~torch.tensor(batch.finished)
    expected = batch.scores - missing
    assert torch.allclose(rewards.sum(dim=1), expected, atol=1e-6)
    for row, ids in enumerate(batch.input_ids):
        offsets = token_offsets(
            ours.tokenizer, ids[batch.prompt_lengths[row] :]
        )
        at = max(i for i, (start, _) in enumerate(offsets) if start <= 1)
        assert batch.token_rewards[row].count_nonzero() == 1
        assert batch.token_rewards[row, at].item() == -0.5
        if at < len(offsets) - 1:
            assert rewards[row, at].item() == pytest.approx(-0.5)
    assert set(ours.update(batch)) >= {"policy/loss"}


def test_a_charge_may_count_more_than_the_response_loses_by_it():
    """Half a point at a token of each, three times: the token has -1.5, the
    last action what it has with weight 1, and the sum is a point less."""
    once, thrice = trainer(), trainer(credit_weight=3.0)
    batch = once.rollout()
    rewards, more = once.learner.rewards(batch), thrice.learner.rewards(batch)
    assert torch.allclose(rewards.outcomes, more.outcomes, atol=1e-6)
    gap = more.tokens - rewards.tokens
    assert torch.allclose(gap, 2 * batch.token_rewards, atol=1e-6)
    assert torch.allclose(gap, more.charges - rewards.charges, atol=1e-6)
    assert torch.allclose(gap.sum(dim=1), torch.tensor(-1.0), atol=1e-6)


def test_lambda_keeps_a_charge_from_the_tokens_before_it():
    """Half a point, charged at a token: with lambda 0 the rest of the score,
    half a point more, is all that comes before, and what is left after."""
    ours = trainer(gae_lambda=0.0, missing_eos_penalty=0.0)
    batch = ours.rollout()
    returns = torch.where(batch.mask, batch.scores[:, None] + 0.5, 0.0)
    returns += batch.token_rewards
    ahead = formulas.group_advantages(
        returns, batch.scores + 0.5, batch.mask, ours.config.group_size
    )
    given = watched(ours)
    ours.update(batch)
    found = given[0][1].advantages
    scale = formulas.deviation(ahead, batch.mask)
    assert torch.allclose(found, ahead / scale, atol=1e-5)
    assert (batch.token_rewards[:, 1:] == -0.5).any()


def test_the_whole_score_may_stand_on_the_last_action():
    batch = trainer(credit="response").rollout()
    assert batch.token_rewards.shape == batch.mask.shape
    assert not batch.token_rewards.any()
    assert trainer().rollout().token_rewards.any()
    alone = trainer(credit_function=None).rollout()
    assert not alone.token_rewards.any()


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda p, c: [], TrainingError, "got another thing"),
        (lambda p, c: 3, TrainingError, "got another thing"),
        (lambda p, c: [None] * 8, TrainingError, "got another thing"),
        (lambda p, c: [[(0,)]] * 8, TrainingError, "got another thing"),
        (
            lambda p, c: [[TokenReward(0, float("inf"))]] * 8,
            TrainingError,
            "must be finite",
        ),
    ],
)
def test_credit_that_is_missing_or_wrong(function, error, message):
    with pytest.raises(error, match=message):
        trainer(credit_function=function).rollout()
