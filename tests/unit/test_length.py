"""Advantages without what presses on length: by hand, and in the trainer."""

import dataclasses
import math
import random
from collections import Counter

import pytest
import torch
from conftest import build_trainer

from stylerl.ppo import by_reward
from stylerl.ppo.length import (
    advantage_of,
    lengths_of,
    mean_log_length,
    without_length,
)

CODE = "    return a\n"


def make(reward=lambda p, texts: [0.0] * len(texts), asked=("x",), **changes):
    settings = {
        "updates": 2,
        "batch_size": 4,
        "pass_tokens": 0,
        "max_new_tokens": 8,
        "temperature": 1.0,
        "missing_eos_penalty": 0.0,
        "checkpoint_every": 0,
        "keep_length": True,
        **changes,
    }
    return build_trainer(by_reward(reward), asked, **settings)


def rollouts(lengths, finished=(True,) * 4, completions=(CODE,) * 4):
    """The rollouts of a trainer, with other completions."""
    return dataclasses.replace(
        make().rollout(),
        prompts=["def f(a):\n"] * 4,
        completions=[*completions],
        judged=[*completions],
        finished=[*finished],
        response_lengths=torch.tensor(lengths),
    )


def test_the_price_of_length_by_hand():
    """One token that earned 1 where L is -1, and two of nothing where it is
    1: b = -1 / 3, and A - b L = 1 - 1/3, 1/3, 1/3."""
    advantages = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    mask = torch.tensor([[True, False], [True, True]])
    longer = torch.tensor([-1.0, 1.0])
    got = without_length(advantages, advantages, mask, longer, 0.0)
    assert torch.allclose(got, torch.tensor([[2, 0], [1, 1]]) / 3)
    # Twice the price, of charges that count twice.
    got = without_length(advantages, 2 * advantages, mask, longer, 0.0)
    assert torch.allclose(got, torch.tensor([[1, 0], [2, 2]]) / 3)
    # 1, 0, 0 have the variance 1/3: lengths that rose by 1 cost 2 / sqrt(3).
    got = without_length(advantages, advantages, mask, longer, 1.0)
    back = 2 / math.sqrt(3)
    expected = [2 / 3 + back, 1 / 3 - back, 1 / 3 - back]
    assert got[mask].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_left_is_orthogonal_to_length(seed):
    draw = torch.Generator().manual_seed(seed)
    mask = torch.rand(12, 7, generator=draw) < 0.6
    advantages = torch.randn(12, 7, generator=draw) * mask
    longer = torch.randn(12, generator=draw)
    got = without_length(advantages, advantages, mask, longer, 0.0)
    assert float((got * longer[:, None]).sum()) == pytest.approx(0, abs=1e-4)
    assert torch.equal(got * ~mask, torch.zeros(12, 7))
    # What was orthogonal stays.
    again = without_length(got, got, mask, longer, 0.0)
    assert torch.allclose(again, got, atol=1e-5)


def test_equal_lengths_change_nothing():
    advantages = torch.tensor([[1.0], [-1.0]])
    mask = advantages != 0
    none = torch.zeros(2)
    same = without_length(advantages, advantages, mask, none, 0.5)
    assert torch.equal(same, advantages)


def test_lengths_are_compared_among_the_answers_to_a_prompt():
    """Logarithms of 1, 3 and of 7, 31 tokens and one: ln 2, 2 ln 2; 3 ln 2,
    5 ln 2."""
    got = advantage_of(rollouts([1, 3, 7, 31]), 2) / math.log(2)
    assert got.tolist() == pytest.approx([-0.5, 0.5, -1, 1])


def test_what_was_cut_has_no_length():
    """ln 2 and 2 ln 2 are left; where all were cut, nothing is."""
    cut = [True, True, False, False]
    got = advantage_of(rollouts([1, 3, 7, 7], cut), 4) / math.log(2)
    assert got.tolist() == pytest.approx([-0.5, 0.5, 0, 0])
    none = advantage_of(rollouts([1, 3, 7, 7], [False] * 4), 4)
    assert none.tolist() == [0] * 4


@pytest.mark.parametrize(
    "prose",
    [
        "# " + 22 * "a",
        '"""' + 18 * "a" + '"""',
        '"""' + 9 * "a" + "\n\n      " + 9 * "a" + '"""',
        "f'" + 18 * "a" + "{a}'",
    ],
)
def test_prose_adds_no_length(prose):
    """8 tokens with 8 characters of code and 24 of prose are 2; a text
    without any has no length."""
    half = f"    {prose}\n{CODE}"
    batch = rollouts([8, 16, 1, 7], completions=[half, half, "", CODE])
    assert lengths_of(batch).tolist() == [2, 4, 0, 7]


def test_the_mean_is_of_those_that_ended():
    """Logarithms of 1, 3 and of 7, 7 tokens and one: 1.5 ln 2 of the first
    two, 2.25 ln 2 of all."""
    for ended, mean in ((True, 1.5), (False, 2.25)):
        batch = rollouts([1, 3, 7, 7], [ended, ended, False, False])
        assert mean_log_length(batch) == pytest.approx(mean * math.log(2))


def test_the_reference_is_asked_for_each_prompt_once():
    """Two batches of 8 for 16 prompts, before the first update alone."""
    asked = []

    def reward(prompts, completions):
        asked.extend(prompts)
        return [random.random() for _ in completions]

    settings = {"batch_size": 8, "group_size": 4}
    texts = [f"x{i}" for i in range(16)]
    trainer = make(reward, texts, **settings)
    trainer.measure_reference()
    assert [*Counter(asked).values()] == [1] * 16
    measured = trainer.learner.log_length
    assert measured > 0
    trainer.measure_reference()
    trainer.update(trainer.rollout())
    assert [*Counter(asked[16:]).values()] == [4, 4]
    # a run does so by itself, whatever was drawn before
    run = make(reward, texts, **settings)
    random.seed(1)
    next(iter(run))
    assert run.learner.log_length == measured


def test_lengths_that_are_not_kept_are_not_measured():
    trainer = make(keep_length=False)
    next(iter(trainer))
    assert trainer.learner.log_length == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keeps", "changes"),
    [
        (False, {"keep_length": False}),
        (True, {"keep_length": True}),
    ],
)
def test_the_trainer_keeps_the_length(keeps, changes):
    """One token, which is code if it is even, and is else worth 1 and prose,
    which has no length; beta = 1/2.  Even tokens have p under pi_ref, and
    p / (p + (1 - p) e^2) at the optimum, but p where length must stay."""
    trainer = make(
        updates=80,
        batch_size=256,
        max_new_tokens=1,
        learning_rate=1e-2,
        kl_coef=0.5,
        **changes,
    )
    shares = []
    for _ in range(len(trainer)):
        batch = trainer.rollout()
        even = [row[-1] % 2 == 0 for row in batch.input_ids]
        changed = dataclasses.replace(
            batch,
            judged=["x" if each else "# x" for each in even],
            finished=[True] * len(even),
            reward_parts={"odd": 1 - torch.tensor(even, dtype=torch.float)},
        )
        trainer.update(changed)
        shares.append(sum(even) / len(even))
    p = shares[0]
    kept = p if keeps else p / (p + (1 - p) * math.e**2)
    assert p > 0.35
    assert sum(shares[-20:]) / 20 == pytest.approx(kept, abs=0.08)
