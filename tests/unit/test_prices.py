"""Prices of constraints: by hand, on a bandit that is solved by hand, and in
the trainer."""

import dataclasses
import math
from collections import Counter

import pytest
import torch
from conftest import build_llama, build_tokenizer

from stylerl.errors import ConfigError
from stylerl.lm.models import encode_prompt
from stylerl.ppo import PPOConfig, PPOTrainer
from stylerl.ppo.constraints import Constraints
from stylerl.ppo.prices import HIGHEST, Price, bonus, kl_weight
from stylerl.reward.gaming import unshared_ngrams


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
    """sigma 2; 0.5 (g - 1/3) of g = 1, 0, 0, and 1.0 (h - 2) of 1, 2, 3."""
    gains = {
        "parses": torch.tensor([1.0, 0.0, 0.0]),
        "substance": torch.tensor([1.0, 2.0, 3.0]),
    }
    paid = {"parses": Price(9, 0.5), "substance": Price(9, 1.0)}
    found = bonus(paid, gains, 2.0)
    # 2 (1/3 - 1), 2 (-1/6 + 0), 2 (-1/6 + 1)
    assert found.tolist() == pytest.approx([-4 / 3, -1 / 3, 5 / 3])
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
        worth = score + bonus({"g": learned}, {"g": gain}, 0.5)
        logits = logits + (worth / 0.5 - logits) / 4
        policy = torch.softmax(logits, dim=0)
        learned = learned.next(share - float(policy @ gain))
    assert learned.learned == pytest.approx(price, abs=1e-4)
    assert learned.now == pytest.approx(price, abs=1e-4)
    assert float(policy[1]) == pytest.approx(kept, abs=1e-4)


def test_what_no_other_text_has():
    """`a b c d` has two 3-grams, one of them its own; nothing has none."""
    texts = ["a b c d", "a b c", "x y", "p q r"]
    assert unshared_ngrams(texts) == [0.5, 0.0, 0.0, 1.0]


# ---- In the trainer. ------------------------------------------------------


def make(reward, *, prompts=("x",), checkpoints=None, **changes):
    tokenizer = build_tokenizer()
    settings = {
        "updates": 2,
        "batch_size": 16,
        "pass_tokens": 0,
        "lora_rank": 0,
        "max_new_tokens": 8,
        "temperature": 1.0,
        "precision": "fp32",
        "learning_rate": 3e-3,
        "missing_eos_penalty": 0.0,
        "checkpoint_every": 0 if checkpoints is None else 1,
        **changes,
    }
    return PPOTrainer(
        PPOConfig(**settings),
        policy=build_llama(len(tokenizer)),
        tokenizer=tokenizer,
        reward=reward,
        prompts=prompts,
        checkpoints=checkpoints,
    )


def lengths(prompts, completions):
    return [-float(len(text)) for text in completions]


CONSTRAINTS = {
    "substance": 0.9,
    "length": 0.9,
    "long_bodies": 0.8,
    "parses": 1.0,
    "distinct": 0.9,
    "statements": 1.1,
    "kl": 6.0,
}
FIRST = dict.fromkeys(CONSTRAINTS, Price()) | {
    "length": Price(0.8, 0.8),
    "statements": Price(0.3, 0.3),
}


def rollouts(completions, lengths):
    """The rollouts of a trainer, with other completions."""
    batch = make(lambda p, c: [0.0] * len(c), batch_size=4).rollout()
    score = torch.arange(4.0)  # deviation sqrt(5)/2
    return dataclasses.replace(
        batch,
        prompts=["def f(a):\n"] * 4,
        completions=completions,
        judged=completions,
        response_lengths=torch.tensor(lengths),
        reward_parts={"r": score},
        logprobs=torch.zeros(4, max(lengths)),
        ref_logprobs=torch.full((4, max(lengths)), -1.0),
    )


def test_what_completions_contribute():
    """First the reference: sizes 1, 1, 0, 2 (the names and sums that are
    returned), of which three parse; lengths 2, 4, 6, 8 stand at 1/8, 3/8,
    5/8, 7/8 of themselves, and the longest is above their upper quartile of
    6.5.  Then a batch that is worse."""
    first = rollouts(
        [
            "    return a\n",
            "    return a\n",
            "    return (\n",
            "    return -a\n",
        ],
        [2, 4, 6, 8],
    )
    constraints = Constraints(CONSTRAINTS)
    seen = constraints.observe(first)
    has = constraints.reference
    assert has is not None
    assert has.lengths == [2, 4, 6, 8]
    assert has.means["length"] == 0.5
    assert has.means["long_bodies"] == 0.25
    assert has.means["parses"] == 0.75
    assert has.sigma == pytest.approx(math.sqrt(5) / 2)
    # KL is 1 nat a token: 5 a response, of 6
    metrics = {k: v for k, v in seen.metrics.items() if "constraint" in k}
    assert metrics == {
        "constraint/substance": 1.0,
        "constraint/length": 1.0,
        "constraint/long_bodies": 1.0,
        "constraint/parses": 1.0,
        "constraint/distinct": 1.0,
        "constraint/statements": 1.0,
        "constraint/kl": pytest.approx(5 / 6),
    }
    # The price of length is 0.8, and p sigma / 0.5 pays for 1/8 to 7/8; each
    # that parses has one statement, and the third no say.
    ranks = torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 8
    assert has.means["statements"] == 1
    assert torch.allclose(seen.bonus, 0.8 * math.sqrt(5) * ranks)
    assert seen.kl_weight == 0
    constraints.move(seen.shortfalls)
    # The reference's own are above a floor of 0.9 by 0.1, as they are below
    # a ceiling of 1.1.
    lowered = {
        "length": pytest.approx((0.79, 0.69)),
        "statements": pytest.approx((0.29, 0.19)),
    }
    assert constraints.prices == FIRST | lowered
    # All of one kind, as short as the shortest, and none parses.
    worse = constraints.observe(rollouts(["    return (\n"] * 4, [2] * 4))
    assert worse.shortfalls == pytest.approx(
        {
            "substance": 0.9,
            "length": 0.9 - 0.125 / 0.5,  # all at 1/8
            "long_bodies": 0.8,
            "parses": 1.0,
            "distinct": 0.9,
            "statements": 0.0 - 1.1,  # below a ceiling
            "kl": 2 / 6 - 1,
        }
    )
    constraints.move(worse.shortfalls)
    # 0.1 x 0.5, and 1.0 x 0.5
    moved = {
        "kl": Price(),
        "length": pytest.approx((0.84, 1.34)),
        "statements": pytest.approx((0.24, 0.0)),
    }
    assert constraints.prices == (
        dict.fromkeys(CONSTRAINTS, pytest.approx((0.05, 0.55))) | moved
    )
    again = constraints.observe(first)
    # Length has the highest price, and the first is shortest; the third is
    # longer than the second, but does not parse.
    assert again.bonus.argmin() == 0
    assert again.bonus[2] < again.bonus[1]
    assert again.bonus.argmax() == 3
    assert float(again.bonus.sum()) == pytest.approx(0, abs=1e-5)


def test_the_reference_may_have_several_batches():
    """Lengths 1, 2, 3, 3 and 3, 4, 5, 7, a quarter of which is from 4.25 on.
    Three of eight texts say two pairs and the others one, 11/8 in the mean,
    and no text says more than twice it."""
    constraints = Constraints({"length": 1.0})
    short = ["    return a\n"] * 4
    mixed = ["    return -a\n"] * 3 + ["    return a\n"]
    constraints.measure(
        [rollouts(short, [1, 2, 3, 3]), rollouts(mixed, [3, 4, 5, 7])]
    )
    has = constraints.reference
    assert (has.lengths, has.page) == ([1, 2, 3, 3, 3, 4, 5, 7], 2.75)
    assert has.means["length"] == 0.5
    assert has.means["long_bodies"] == 2 / 8
    assert has.means["substance"] == 11 / 8
    # What no other text of the batch has, not of the reference.
    assert has.means["distinct"] == 0
    # 3 stands at (2 + 5) / 16, and 7 at (7 + 8) / 16: 9/16 in the mean.
    seen = constraints.observe(rollouts(short, [3, 3, 3, 7]))
    share = seen.metrics["constraint/length"]
    assert share == pytest.approx(9 / 16 / 0.5)


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
    constraints.measure([rollouts([half, half, "", code], [8, 16, 1, 7])])
    assert constraints.reference is not None
    assert constraints.reference.lengths == [0, 2, 4, 7]
    seen = constraints.observe(rollouts([half] * 4, [8] * 4))
    # 2 stands at (1 + 2) / 8 of a mean of 1/2
    assert seen.metrics["constraint/length"] == 0.75


def test_a_ceiling_costs_what_is_above_it():
    """Of the reference every text has one statement, then 1, 1, 1 and 2: a
    quarter above its mean, and 0.15 above the ceiling."""
    one, two = "    return a\n", "    print(a)\n    return a\n"
    constraints = Constraints({"statements": 1.1})
    constraints.measure([rollouts([one] * 4, [4] * 4)])
    batch = rollouts([one] * 3 + [two], [4] * 4)
    seen = constraints.observe(batch)
    assert seen.metrics["constraint/statements"] == 1.25
    assert seen.shortfalls == pytest.approx({"statements": 0.15})
    constraints.move(seen.shortfalls)
    # 0.3 + 0.1 x 0.15 = 0.315 learned, and 1.0 x 0.15 more is paid now
    paid = math.sqrt(5) / 2 * 0.465  # sigma x p, for a statement
    found = constraints.observe(batch).bonus
    assert found.tolist() == pytest.approx([paid / 4] * 3 + [-paid * 3 / 4])


def test_what_does_not_parse_has_no_say_in_statements():
    """The mean is 1 whether half of the batch parses or all of it; beside
    one and two statements, what does not parse is paid nothing."""
    one, two = "    return a\n", "    print(a)\n    return a\n"
    broken = "    return (\n"
    constraints = Constraints({"statements": 1.1})
    constraints.measure([rollouts([one, one, broken, broken], [4] * 4)])
    seen = constraints.observe(rollouts([one] * 4, [4] * 4))
    assert seen.metrics["constraint/statements"] == 1
    seen = constraints.observe(rollouts([one, two, broken, broken], [4] * 4))
    assert seen.metrics["constraint/statements"] == 1.5
    paid = math.sqrt(5) / 2 * 0.3  # sigma x p, for a statement
    assert seen.bonus.tolist() == pytest.approx([paid / 2, -paid / 2, 0, 0])
    seen = constraints.observe(rollouts([broken] * 4, [4] * 4))
    assert seen.metrics["constraint/statements"] == 0
    assert not seen.bonus.any()


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


@pytest.mark.parametrize(
    ("name", "often"),
    [("length", 1), ("statements", 1), ("distinct", 4)],
)
def test_the_reference_is_asked_for_each_prompt_once(name, often):
    """Two batches of 8 for 16 prompts; `distinct` alone compares what
    stands in a batch, so that its batches are an update's: 2 prompts, four
    times each, and four prompts in all."""
    asked = []

    def reward(prompts, completions):
        asked.extend(prompts)
        return [0.0] * len(prompts)

    trainer = make(
        reward,
        prompts=[f"x{i}" for i in range(16)],
        constraints={name: 0.9},
        batch_size=8,
        baseline="group",
        group_size=4,
    )
    trainer.measure_reference()
    assert [*Counter(asked).values()] == [often] * (16 // often)
    trainer.rollout()
    assert [*Counter(asked[16:]).values()] == [4, 4]


def test_substance_knows_the_file():
    """`g + h` adds g and h and returns it; where the file is not known both
    names are worth what one is, and a name that it lacks is nothing."""
    sums = rollouts(["    return g + h\n"] * 4, [4] * 4)

    def mean(*known):
        constraints = Constraints({"substance": 1.0}, *known)
        constraints.observe(sums)
        return constraints.reference.means["substance"]

    assert mean() == 2
    assert mean(lambda prompt: frozenset({"g", "h"})) == 3
    assert mean(lambda prompt: frozenset({"g"})) == 2
    assert mean(lambda prompt: frozenset()) == 1


def test_without_constraints_nothing_is_measured():
    metrics = next(iter(make(lengths))).metrics
    assert not [k for k in metrics if k.startswith(("price/", "constraint/"))]


def test_a_resumed_run_has_the_prices_of_one_that_was_not(tmp_path):
    """Three updates, and two and one more: the same figures, and prices
    that have risen, since shortness pays."""
    options = {
        "constraints": {"long_bodies": 1.5, "kl": 0.01},
        "updates": 3,
        "reward": lengths,
    }
    whole = make(**options)
    for _ in whole:
        pass
    begun = make(**options, checkpoints=tmp_path)
    for step in begun:
        if step.update == 2:
            break
    resumed = make(**options, checkpoints=tmp_path)
    (last,) = [step.metrics for step in resumed]
    assert last == whole.history[-1]
    assert 0 < last["price/long_bodies"] < HIGHEST
    assert (
        resumed.learner.constraints.state()
        == whole.learner.constraints.state()
    )


@pytest.mark.slow
@pytest.mark.parametrize("floor", [{}, {"parses": 1.0}])
def test_the_trainer_keeps_what_a_floor_asks_for(floor):
    """One token, which parses if it is even and is worth 1 if not, beta =
    1/2.  Even tokens have p under pi_ref, and p / (p + (1 - p) e^2) at the
    optimum, but p where as many must parse."""
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
            judged=[" = 1" if each else " = (" for each in even],
            reward_parts={"odd": 1 - torch.tensor(even, dtype=torch.float)},
        )
        trainer.update(changed)
        shares.append(sum(even) / len(even))
    p = shares[0]
    kept = p if floor else p / (p + (1 - p) * math.e**2)
    assert p > 0.35
    assert sum(shares[-20:]) / 20 == pytest.approx(kept, abs=0.05)


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
        ent_coef=0.0,
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
    assert PPOConfig(constraints={"statements": 2.5, "kl": 30.0})
