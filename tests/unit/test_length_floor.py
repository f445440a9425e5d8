"""The price of length: by hand, on a bandit that is solved by hand, and in
the trainer."""

import dataclasses
import math
import random
from collections import Counter

import pytest
import torch
from conftest import build_trainer

from stylerl.ppo import by_reward
from stylerl.ppo.length_floor import HIGHEST, LengthFloor, Price, bonus
from stylerl.report import charts


@pytest.mark.parametrize(
    ("learned", "shortfall", "then", "now"),
    [
        (1.0, 0.1, 1.01, 1.21),  # 1 + 0.1 x 0.1, and 2.0 x 0.1
        (1.0, -0.1, 0.99, 0.79),
        (1.0, 0.0, 1.0, 1.0),
        (1.0, 9.0, 1.05, 2.05),  # no more than 0.5 counts
        (2.0, -9.0, 1.95, 0.95),
        (0.01, -0.4, 0.0, 0.0),  # never negative: nothing presses
        (4.99, 0.4, HIGHEST, HIGHEST),
    ],
)
def test_a_price_rises_by_what_is_missed(learned, shortfall, then, now):
    found = Price(learned, now=3.0).next(shortfall)
    assert found == pytest.approx((then, now))


def test_a_bonus_is_centred_and_in_deviations_of_the_score():
    """sigma 2; 0.5 (g - 2) of g = 1, 2, 3."""
    found = bonus(Price(9, 0.5), torch.tensor([1.0, 2.0, 3.0]), 2.0)
    assert found.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("share", "price", "kept"),
    [
        # E[g] >= 0.8 x 0.5: b has 0.4.  Its log-odds to a are ln(2/3) =
        # (sigma p / 0.5 - 1) / beta, so p = 1 + ln(2/3) / 2 = 0.7973.
        (0.8, 1 + math.log(2 / 3) / 2, 0.4),
        # 0.2 x 0.5 = 0.1, but b has 1 / (1 + e^2) = 0.1192 for nothing
        (0.2, 0.0, 1 / (1 + math.e**2)),
    ],
)
def test_ascent_finds_the_price_of_a_bandit(share, price, kept):
    """Two actions, 1/2 each under pi_ref, beta = 1/2: a is worth 1, b
    contributes 1.  sigma is the deviation of 0 and 1, 1/2, the level of the
    contribution 1/2.  An update takes the policy's logits a quarter of the
    way to the optimum for its price, pi_ref exp((s + bonus) / beta) / Z:
    it follows late, as PPO does."""
    score, gain = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]) / 0.5
    learned = Price(2.0, 2.0)  # from above
    logits = torch.zeros(2)  # pi_ref
    for _ in range(400):
        worth = score + bonus(learned, gain, 0.5)
        logits = logits + (worth / 0.5 - logits) / 4
        policy = torch.softmax(logits, dim=0)
        learned = learned.next(share - float(policy @ gain))
    assert learned.learned == pytest.approx(price, abs=1e-4)
    assert learned.now == pytest.approx(price, abs=1e-4)
    assert float(policy[1]) == pytest.approx(kept, abs=1e-4)


# ---- In the trainer. ------------------------------------------------------


def make(reward, *, prompts=("x",), checkpoints=None, **changes):
    settings = {
        "updates": 2,
        "batch_size": 16,
        "pass_tokens": 0,
        "max_new_tokens": 8,
        "temperature": 1.0,
        "learning_rate": 3e-3,
        "missing_eos_penalty": 0.0,
        "checkpoints": checkpoints,
        "checkpoint_every": 0 if checkpoints is None else 1,
        **changes,
    }
    return build_trainer(by_reward(reward), prompts, **settings)


RETURNS = ["    return a\n"] * 4


def lengths(prompts, completions):
    return [-float(len(text)) for text in completions]


def rollouts(lengths, finished=(True,) * 4, completions=RETURNS):
    """The rollouts of a trainer, with other completions."""
    batch = make(lambda p, c: [0.0] * len(c), batch_size=4).rollout()
    score = torch.arange(4.0)  # deviation sqrt(5)/2
    return dataclasses.replace(
        batch,
        prompts=["def f(a):\n"] * 4,
        completions=completions,
        judged=completions,
        finished=[*finished],
        response_lengths=torch.tensor(lengths),
        reward_parts={"r": score},
        logprobs=torch.zeros(4, max(lengths)),
        ref_logprobs=torch.full((4, max(lengths)), -1.0),
    )


def test_what_completions_contribute():
    """First the reference: lengths 2, 4, 6, 8 stand at 1/8, 3/8, 5/8, 7/8 of
    themselves.  Then a batch that is shorter."""
    floor = LengthFloor(0.9)
    first = rollouts([2, 4, 6, 8])
    seen = floor.observe(first)
    has = floor.reference
    assert has is not None
    assert has.lengths == [2, 4, 6, 8]
    assert has.sigma == pytest.approx(math.sqrt(5) / 2)
    assert seen.metrics == {"length/kept": 1.0, "length/price": 1.0}
    assert "length/price" in charts.CURVES  # of the report
    # The price of length is 1, and p sigma / 0.5 pays for 1/8 to 7/8.
    ranks = torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 8
    assert torch.allclose(seen.bonus, math.sqrt(5) * ranks)
    floor.move(seen.shortfall)
    # The reference's own are above a floor of 0.9 by 0.1.
    assert floor.price == pytest.approx((0.99, 0.79))
    # All as short as the shortest, so at 1/8.
    worse = floor.observe(rollouts([2] * 4))
    assert worse.shortfall == pytest.approx(0.9 - 0.125 / 0.5)
    floor.move(worse.shortfall)
    # 0.1 x 0.5, and 2.0 x 0.5
    assert floor.price == pytest.approx((1.04, 2.04))
    again = floor.observe(first)
    assert again.bonus.argmin() == 0
    assert again.bonus.argmax() == 3
    assert float(again.bonus.sum()) == pytest.approx(0, abs=1e-5)


def test_the_reference_may_have_several_batches():
    """Lengths 1, 2, 3, 3 and 3, 4, 5, 7."""
    floor = LengthFloor(1.0)
    floor.measure([rollouts([1, 2, 3, 3]), rollouts([3, 4, 5, 7])])
    has = floor.reference
    assert has is not None
    assert has.lengths == [1, 2, 3, 3, 3, 4, 5, 7]
    # 3 stands at (2 + 5) / 16, and 7 at (7 + 8) / 16: 9/16 in the mean.
    seen = floor.observe(rollouts([3, 3, 3, 7]))
    assert seen.metrics["length/kept"] == pytest.approx(9 / 16 / 0.5)


def test_what_was_cut_has_no_length():
    """Of the reference 2, 4 and 6 count.  Then 4, at 1/2 of them, and 6, at
    5/6, come to 2/3 in the mean; the two that were cut get no bonus."""
    floor = LengthFloor(1.0)
    floor.measure([rollouts([2, 4, 6, 8], [True, True, True, False])])
    assert floor.reference is not None
    assert floor.reference.lengths == [2, 4, 6]
    batch = rollouts([4, 6, 8, 8], [True, True, False, False])
    seen = floor.observe(batch)
    assert seen.metrics["length/kept"] == pytest.approx(2 / 3 / 0.5)
    low, high, *cut = seen.bonus.tolist()
    assert cut == [0, 0] and low == pytest.approx(-high) and high > 0
    # where none has ended, all count
    none = floor.observe(rollouts([2] * 4, [False] * 4))
    assert none.shortfall == pytest.approx(1 - 1 / 6 / 0.5)


def test_a_run_measures_its_reference_before_the_first_update():
    """Two batches, of a policy that has not learnt: an update by hand has
    no more than its own."""
    run, by_hand = (make(lengths, length_floor=1.0) for _ in "ab")
    first = next(iter(run))
    by_hand.measure_reference()
    levels = [each.learner.floor.reference for each in (run, by_hand)]
    assert levels[0] == levels[1]
    alone = make(lengths, length_floor=1.0)
    metrics = alone.update(alone.rollout())
    assert metrics["length/kept"] == 1
    assert first.metrics["length/kept"] != 1


def test_the_reference_is_asked_for_each_prompt_once():
    """Two batches of 8 for 16 prompts; an update asks for two, four times."""
    asked = []

    def reward(prompts, completions):
        asked.extend(prompts)
        return [0.0] * len(prompts)

    trainer = make(
        reward,
        prompts=[f"x{i}" for i in range(16)],
        length_floor=0.9,
        batch_size=8,
        group_size=4,
    )
    trainer.measure_reference()
    assert [*Counter(asked).values()] == [1] * 16
    trainer.rollout()
    assert [*Counter(asked[16:]).values()] == [4, 4]


def test_a_reward_that_draws_measures_the_same_reference():
    """Whatever else has drawn from the global generators before."""

    def reward(prompts, completions):
        return [random.random() for _ in completions]

    found = []
    for other in range(2):
        trainer = make(reward, length_floor=0.9)
        random.seed(other)
        trainer.measure_reference()
        found.append(trainer.learner.floor.reference)
    assert found[0] == found[1]


def test_without_a_floor_nothing_is_measured():
    metrics = next(iter(make(lengths))).metrics
    assert not [name for name in metrics if name.startswith("length/")]


def test_a_resumed_run_has_the_price_of_one_that_was_not(tmp_path):
    """Three updates, and two and one more: the same figures, and a price
    that has risen, since shortness pays."""
    options = {
        "length_floor": 1.5,
        "updates": 3,
        "reward": lengths,
    }
    whole = make(**options)
    list(whole)  # to its end
    begun = make(**options, checkpoints=tmp_path)
    for step in begun:
        if step.update == 2:
            break
    resumed = make(**options, checkpoints=tmp_path)
    (last,) = [step.metrics for step in resumed]
    assert last == whole.history[-1]
    assert 1.0 < last["length/price"] < HIGHEST
    assert resumed.learner.floor.state() == whole.learner.floor.state()
