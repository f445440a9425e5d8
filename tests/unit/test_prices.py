"""Prices of constraints: by hand, on a bandit that is solved by hand, and in
the trainer."""

import dataclasses
import math
from collections import Counter

import pytest
import torch
from conftest import build_llama, build_tokenizer, build_trainer

from stylerl.errors import ConfigError
from stylerl.lm.encoding import encode_prompt
from stylerl.ppo import PPOConfig, by_reward
from stylerl.ppo.constraints import Constraints
from stylerl.ppo.prices import HIGHEST, Price, bonus, kl_weight


@pytest.mark.parametrize(
    ("learned", "shortfall", "then", "now"),
    [
        (1.0, 0.1, 1.01, 1.11),  # 1 + 0.1 x 0.1, and 1.0 x 0.1
        (1.0, -0.1, 0.99, 0.89),
        (1.0, 0.0, 1.0, 1.0),
        (1.0, 9.0, 1.05, 1.55),  # no more than 0.5 counts
        (1.0, -9.0, 0.95, 0.45),
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
    assert kl_weight(Price(9, 0.3), limit=6.0, sigma=2.0) == pytest.approx(0.1)


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
    constraints = Constraints({"length": 0.9, "kl": 6.0})
    first = rollouts([2, 4, 6, 8])
    seen = constraints.observe(first)
    has = constraints.reference
    assert has is not None
    assert has.lengths == [2, 4, 6, 8]
    assert has.sigma == pytest.approx(math.sqrt(5) / 2)
    # KL is 1 nat a token: 5 a response, of 6
    assert seen.metrics == {
        "constraint/length": 1.0,
        "constraint/kl": pytest.approx(5 / 6),
        "price/length": 1.2,
        "price/kl": 0.0,
    }
    # The price of length is 1.2, and p sigma / 0.5 pays for 1/8 to 7/8.
    ranks = torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 8
    assert torch.allclose(seen.bonus, 1.2 * math.sqrt(5) * ranks)
    assert seen.kl_weight == 0
    constraints.move(seen.shortfalls)
    # The reference's own are above a floor of 0.9 by 0.1.
    lowered = pytest.approx((1.19, 1.09))
    assert constraints.prices == {"length": lowered, "kl": Price()}
    # All as short as the shortest, so at 1/8.
    worse = constraints.observe(rollouts([2] * 4))
    assert worse.shortfalls == pytest.approx(
        {"length": 0.9 - 0.125 / 0.5, "kl": 2 / 6 - 1}
    )
    constraints.move(worse.shortfalls)
    # 0.1 x 0.5, and 1.0 x 0.5
    raised = pytest.approx((1.24, 1.74))
    assert constraints.prices == {"length": raised, "kl": Price()}
    again = constraints.observe(first)
    assert again.bonus.argmin() == 0
    assert again.bonus.argmax() == 3
    assert float(again.bonus.sum()) == pytest.approx(0, abs=1e-5)


def test_the_reference_may_have_several_batches():
    """Lengths 1, 2, 3, 3 and 3, 4, 5, 7."""
    constraints = Constraints({"length": 1.0})
    constraints.measure([rollouts([1, 2, 3, 3]), rollouts([3, 4, 5, 7])])
    has = constraints.reference
    assert has is not None
    assert has.lengths == [1, 2, 3, 3, 3, 4, 5, 7]
    # 3 stands at (2 + 5) / 16, and 7 at (7 + 8) / 16: 9/16 in the mean.
    seen = constraints.observe(rollouts([3, 3, 3, 7]))
    share = seen.metrics["constraint/length"]
    assert share == pytest.approx(9 / 16 / 0.5)


def test_what_was_cut_has_no_length():
    """Of the reference 2, 4 and 6 count.  Then 4, at 1/2 of them, and 6, at
    5/6, come to 2/3 in the mean; the two that were cut get no bonus."""
    constraints = Constraints({"length": 1.0})
    constraints.measure([rollouts([2, 4, 6, 8], [True, True, True, False])])
    assert constraints.reference is not None
    assert constraints.reference.lengths == [2, 4, 6]
    batch = rollouts([4, 6, 8, 8], [True, True, False, False])
    seen = constraints.observe(batch)
    share = seen.metrics["constraint/length"]
    assert share == pytest.approx(2 / 3 / 0.5)
    low, high, *cut = seen.bonus.tolist()
    assert cut == [0, 0] and low == pytest.approx(-high) and high > 0
    # where none has ended, all count
    assert constraints.observe(rollouts([2] * 4, [False] * 4)).shortfalls[
        "length"
    ] == pytest.approx(1 - 1 / 6 / 0.5)


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
    code = "    return a\n"
    half = f"    {prose}\n    return a\n"
    constraints = Constraints({"length": 1.0})
    prose = [half, half, "", code]
    constraints.measure([rollouts([8, 16, 1, 7], completions=prose)])
    assert constraints.reference is not None
    assert constraints.reference.lengths == [0, 2, 4, 7]
    seen = constraints.observe(rollouts([8] * 4, completions=[half] * 4))
    # 2 stands at (1 + 2) / 8 of a mean of 1/2
    assert seen.metrics["constraint/length"] == 0.75


def test_a_run_measures_its_reference_before_the_first_update():
    """Four batches, of a policy that has not learnt: an update by hand has
    no more than its own."""
    run, by_hand = (make(lengths, constraints={"length": 1.0}) for _ in "ab")
    first = next(iter(run))
    by_hand.measure_reference()
    levels = [each.learner.constraints.reference for each in (run, by_hand)]
    assert levels[0] == levels[1]
    alone = make(lengths, constraints={"length": 1.0})
    metrics = alone.update(alone.rollout())
    assert metrics["constraint/length"] == 1
    assert first.metrics["constraint/length"] != 1


def test_the_reference_is_asked_for_each_prompt_once():
    """Two batches of 8 for 16 prompts; an update asks for two, four times."""
    asked = []

    def reward(prompts, completions):
        asked.extend(prompts)
        return [0.0] * len(prompts)

    trainer = make(
        reward,
        prompts=[f"x{i}" for i in range(16)],
        constraints={"length": 0.9},
        batch_size=8,
        baseline="group",
        group_size=4,
    )
    trainer.measure_reference()
    assert [*Counter(asked).values()] == [1] * 16
    trainer.rollout()
    assert [*Counter(asked[16:]).values()] == [4, 4]


def test_without_constraints_nothing_is_measured():
    metrics = next(iter(make(lengths))).metrics
    assert not [k for k in metrics if k.startswith(("price/", "constraint/"))]


def test_a_resumed_run_has_the_prices_of_one_that_was_not(tmp_path):
    """Three updates, and two and one more: the same figures, and prices
    that have risen, since shortness pays."""
    options = {
        "constraints": {"length": 1.5, "kl": 0.01},
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
    assert 0 < last["price/length"] < HIGHEST
    assert (
        resumed.learner.constraints.state()
        == whole.learner.constraints.state()
    )


@pytest.mark.slow
@pytest.mark.parametrize("floor", [{}, {"length": 1.0}])
def test_the_trainer_keeps_what_a_floor_asks_for(floor):
    """One token, which is code if it is even, and is else worth 1 and prose,
    which has no length; beta = 1/2.  Even tokens have p under pi_ref, and
    p / (p + (1 - p) e^2) at the optimum, but p where length must stay."""
    trainer = make(
        lambda prompts, texts: [0.0] * len(texts),
        updates=80,
        batch_size=256,
        max_new_tokens=1,
        learning_rate=1e-2,
        kl_coef=0.5,
        constraints=floor,
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
    kept = p if floor else p / (p + (1 - p) * math.e**2)
    assert p > 0.35
    assert sum(shares[-20:]) / 20 == pytest.approx(kept, abs=0.08)


@pytest.mark.slow
def test_the_trainer_finds_the_optimum_under_a_ceiling_on_kl():
    """One token, worth 1 if it is even; even tokens have p under pi_ref,
    and p + 1/4 where KL = q ln(q/p) + (1-q) ln((1-q)/(1-p)) is at its limit.
    Without the constraint (beta = 0) they would have all."""
    model_prompt = torch.tensor([encode_prompt(build_tokenizer(), "x")])

    def even(model):
        with torch.no_grad():
            logits = model(model_prompt).logits[0, -1]
        return torch.softmax(logits, dim=-1)[::2].sum().item()

    p = even(build_llama(len(build_tokenizer())))
    q = p + 0.25
    limit = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    trainer = make(
        lambda prompts, texts: [0.0] * len(texts),
        updates=90,
        batch_size=256,
        max_new_tokens=1,
        learning_rate=1e-3,
        kl_coef=0.0,
        constraints={"kl": limit},
    )
    shares, prices = [], []
    for _ in range(len(trainer)):
        batch = trainer.rollout()
        worth = [float(row[-1] % 2 == 0) for row in batch.input_ids]
        parts = {"even": torch.tensor(worth)}
        metrics = trainer.update(
            dataclasses.replace(batch, reward_parts=parts)
        )
        shares.append(even(trainer.policy.model))
        prices.append(metrics["price/kl"])
    assert sum(shares[-20:]) / 20 == pytest.approx(q, abs=0.04)
    # The price of a nat is what it would gain: 1 / (the change of log-odds).
    odds = math.log(q / (1 - q)) - math.log(p / (1 - p))
    sigma = trainer.learner.constraints.reference.sigma
    weight = sigma * sum(prices[-20:]) / 20 / limit
    assert weight == pytest.approx(1 / odds, rel=0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"style": 1.0}, "style"),
        ({"kl": 0.0}, "above 0"),
        ({"length": 2.5}, "at most 2"),
    ],
)
def test_a_constraint_that_is_none_is_one_clear_error(given, words):
    with pytest.raises(ConfigError, match=f"ppo.constraints.*{words}"):
        PPOConfig(constraints=given)


def test_a_ceiling_may_be_as_high_as_one_likes():
    assert PPOConfig(constraints={"kl": 30.0})
