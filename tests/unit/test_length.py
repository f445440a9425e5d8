"""Advantages without what presses on length: by hand, and in the trainer."""

import dataclasses
import math
from collections import Counter

import pytest
import torch
from conftest import build_trainer
from test_ppo import watched

from stylerl.ppo import by_reward, formulas
from stylerl.ppo.length import advantage_of, log_lengths, without_length

CODE = "    return a\n"


def make(
    reward=lambda p, texts: [0.0] * len(texts), prompts=("x",), **changes
):
    settings = {
        "updates": 2,
        "batch_size": 4,
        "pass_tokens": 0,
        "max_new_tokens": 8,
        "temperature": 1.0,
        "missing_eos_penalty": 0.0,
        "keep_length": True,
        **changes,
    }
    return build_trainer(by_reward(reward), prompts, **settings)


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
    # 1, 0, 0 have the variance 1/3: lengths that rose by 1 cost 4 / sqrt(3).
    got = without_length(advantages, advantages, mask, longer, 1.0)
    back = 4 / math.sqrt(3)
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
    logs, ended = torch.tensor([1.0, 2.0, 3.0, 5.0]), torch.tensor([True] * 4)
    assert advantage_of(logs, ended, 2).tolist() == [-0.5, 0.5, -1, 1]


def test_what_was_cut_has_no_length():
    """1 and 2 are left of a group; where all were cut, nothing is."""
    logs = torch.tensor([1.0, 2.0, 9.0, 9.0])
    ended = torch.tensor([True, True, False, False])
    assert advantage_of(logs, ended, 4).tolist() == [-0.5, 0.5, 0, 0]
    assert advantage_of(logs, ended, 2).tolist() == [-0.5, 0.5, 0, 0]


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
    tokens = torch.tensor([8, 16, 1, 7])
    found = log_lengths(["def f(a):\n"] * 4, [half, half, "", CODE], tokens)
    assert found.expm1().tolist() == pytest.approx([2, 4, 0, 7])


def ending(*finished, **changes):
    """A trainer, and four completions, three of 8 tokens, of which the first
    has 2 in lines of code: log(1 + length) is ln 3, of the others 2 ln 3."""
    trainer = make(group_size=2, **changes)
    batch = trainer.rollout()
    assert batch.response_lengths[:3].tolist() == [8] * 3
    rewards = torch.zeros(4, 8)
    rewards[0, 1], rewards[3, 3] = -0.5, -0.5
    return trainer, dataclasses.replace(
        batch,
        prompts=["def f(a):\n"] * 4,
        judged=[f"    # {22 * 'a'}\n{CODE}", CODE, CODE, CODE],
        finished=[*finished],
        token_rewards=rewards,
    )


def test_an_update_prices_charges_and_answers_drift():
    """With lambda 0 a charge is A's at its own token alone, and a half of it
    A''s at the one before; the mean of ln 3, 2 ln 3, 2 ln 3 is 1.67 ln 3."""
    trainer, batch = ending(True, True, True, False, gae_lambda=0.0)
    learner = trainer.learner
    learner.log_length = 1.0
    given = watched(trainer)
    drift = trainer.update(batch)["length/drift"]
    assert drift == pytest.approx(5 / 3 * math.log(3) - 1)
    rewards = learner.rewards(batch)
    ahead, priced = (
        learner.relative_returns(batch, rewards, x) for x in (0.0, 0.5)
    )
    assert not torch.allclose(ahead, priced)
    longer = torch.tensor([-0.5, 0.5, 0, 0]) * math.log(3)
    kept = without_length(ahead, priced, batch.mask, longer, 0.4 * drift)
    scale = formulas.deviation(kept, batch.mask)
    assert torch.allclose(given[0][1].advantages, kept / scale, atol=1e-5)
    again = trainer.update(batch)["length/drift"]
    assert learner.drift == pytest.approx(0.4 * again + 0.6 * 0.4 * drift)


def test_the_first_batch_that_ends_is_the_measure_where_none_was():
    trainer, cut = ending(False, False, False, False)
    assert trainer.update(cut)["length/drift"] == 0
    assert trainer.learner.log_length is None
    batch = dataclasses.replace(cut, finished=[True, True, False, False])
    assert trainer.update(batch)["length/drift"] == 0
    assert trainer.learner.log_length == pytest.approx(1.5 * math.log(3))
    trainer.learner.drift = 0.5  # and stays so where nothing ended
    trainer.update(cut)
    assert trainer.learner.drift == 0.5


def test_the_reference_is_sampled_once_for_each_prompt_and_not_judged():
    """Two batches of 8 for 16 prompts, before the first update alone."""
    judged, sampled = [], []

    def reward(prompts, completions):
        judged.extend(prompts)
        return [0.0] * len(prompts)

    texts = [f"x{i}" for i in range(16)]
    trainer = make(reward, texts, batch_size=8, group_size=4)
    measure = trainer.sampler.log_lengths

    def watch(prompts, seed):
        sampled.extend(prompts)
        return measure(prompts, seed)

    object.__setattr__(trainer.sampler, "log_lengths", watch)
    trainer.measure_reference()
    assert [*Counter(sampled).values()] == [1] * 16 and judged == []
    next(iter(trainer))
    assert len(sampled) == 16 and len({*judged}) == 2


def test_after_an_update_no_reference_is_measured():
    """The policy is no longer what it was, as a resumed run may have it."""
    trainer = make()
    trainer.learner.done = 1
    trainer.measure_reference()
    assert trainer.learner.log_length is None


def test_lengths_that_are_not_kept_are_not_measured():
    trainer = make(keep_length=False)
    assert "length/drift" not in next(iter(trainer)).metrics
    assert trainer.learner.log_length is None


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [False, True])
def test_the_trainer_keeps_the_length(keeps):
    """One token, which is code if it is even, and is else worth 1 and prose,
    which has no length; beta = 1/2.  Even tokens have p under pi_ref, and
    p / (p + (1 - p) e^2) at the optimum, but p where length must stay."""
    trainer = make(
        updates=80,
        batch_size=256,
        max_new_tokens=1,
        learning_rate=1e-2,
        kl_coef=0.5,
        keep_length=keeps,
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
