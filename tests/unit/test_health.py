"""Every alarm: the figures that raise it, those that do not, and runs that
provoke it."""

import pytest
import torch
from conftest import (
    KeptRun,
    build_llama,
    build_tokenizer,
    build_trainer,
    grader,
    share_of,
)

from stylerl.lm.sampling import generate
from stylerl.ppo.health import ADVICE, alarms
from tasks import ppo

PROMPTS = ["def f():\n", "x"]
HEALTHY = {
    "objective/score": 0.5,
    "objective/score_std": 0.4,
    "objective/rlhf_reward": 0.4,
    "objective/kl": 2.0,
    "objective/mismatch": 0.0,
    "objective/entropy": 1.5,
    "policy/clipfrac": 0.15,
    "policy/approxkl": 0.01,
    "response/unique": 0.9,
    "response/distinct_3": 0.8,
    "response/length": 60.0,
    "judge/score": 0.7,
    "judge/compliance": 0.4,
    "judge/parse_rate": 0.8,
    "judge/statements": 4.0,
    "judge/repeated_lines": 0.05,
}


def history(updates=12, *, from_update=8, **changes):
    """Healthy updates, the last ones with some figures changed."""
    changed = {name.replace("__", "/"): v for name, v in changes.items()}
    return [
        HEALTHY | (changed if update >= from_update else {})
        for update in range(1, updates + 1)
    ]


def without_judge(rows):
    """The same updates, in which nothing was judged."""
    return [
        {k: v for k, v in row.items() if not k.startswith("judge/")}
        for row in rows
    ]


CASES = [
    # what is reported, and what it says
    # ten deviations of 0.4 below 0.5
    ({"objective__score": -3.6}, "reward collapse", "0.50 to -3.60"),
    # below 1% of a mean of 0.5
    ({"objective__score_std": 0.004}, "reward collapse", "0.0040"),
    ({"objective__kl": 10.1}, "KL explosion", "above 10"),
    ({"objective__kl": 15.1}, "KL explosion", "above 15"),
    ({"objective__mismatch": 0.06}, "sampling mismatch", "less likely"),
    ({"objective__mismatch": -0.1}, "sampling mismatch", "more likely"),
    ({"objective__entropy": 0.14}, "entropy collapse", "0.140 nats"),
    ({"policy__clipfrac": 0.51}, "updates too big", "0.51"),
    ({"policy__approxkl": 1.1}, "updates too big", "1.10 nats"),
    ({"response__unique": 0.44}, "policy collapse", "0.9 to 0.44"),
    ({"response__distinct_3": 0.39}, "policy collapse", "3-grams"),
    ({"response__length": 29.0}, "policy collapse", "60 to 29"),
    (
        {"judge__repeated_lines": 0.26},
        "policy collapse",
        "repeated lines rose, 0.05 to 0.26",
    ),
]

# What falls while the reward rises by a quarter of its deviation, 0.1.
FALLING = [
    ("judge__compliance", 0.34, "rose by 0.10 while compliance fell from 0.4"),
    ("judge__score", 0.64, "the judge's score fell from 0.70 to 0.64"),
    ("judge__parse_rate", 0.74, "the parse rate"),
    ("judge__statements", 2.7, "the number of statements"),
]
CASES += [
    ({"objective__score": 0.6, what: value}, "reward hacking", words)
    for what, value, words in FALLING
]

QUIET = [
    {},
    # means fall where completions that were cut end now
    {"objective__score": 0.6, "response__length": 41.0},
    {"objective__score": -3.4},
    {"objective__score_std": 0.006},
    {"objective__kl": 9.9},
    {"objective__mismatch": 0.04},
    {"objective__entropy": 0.16},
    {"policy__clipfrac": 0.5},
    # the objective has risen by more than a quarter of 0.4
    {"objective__kl": 20.0, "objective__rlhf_reward": 0.51},
    {"policy__clipfrac": 0.6, "objective__rlhf_reward": 0.51},
    {"objective__score_std": 0.0, "objective__rlhf_reward": 0.51},
    {"response__unique": 0.46},
    {"response__length": 31.0},
    {"judge__repeated_lines": 0.24},
    # style falls without a gain, or the reward rises with it
    {"objective__score": 0.55, "judge__compliance": 0.2},
    {"objective__score": 0.9, "judge__compliance": 0.8},
    {"objective__score": 0.6, "judge__compliance": 0.36},
]


@pytest.mark.parametrize(("changes", "name", "words"), CASES)
def test_an_alarm_is_raised(changes, name, words):
    (alarm,) = alarms(history(**changes))
    assert alarm.name == name
    assert words in alarm.finding
    remedy = ADVICE[name].remedy
    assert "ppo." in remedy or "completions" in remedy
    assert str(alarm).endswith(remedy)
    assert str(alarm).startswith(f"{name}: ")


@pytest.mark.parametrize(("kl", "sounds"), [(14.9, False), (15.1, True)])
def test_one_batch_of_long_responses_is_no_explosion(kl, sounds):
    """(4 x 2.0 + 14.9) / 5 = 4.6 nats in the mean; above 15 at once."""
    found = alarms(history(from_update=12, objective__kl=kl))
    assert ["KL explosion"] * sounds == [alarm.name for alarm in found]


@pytest.mark.parametrize("changes", QUIET)
def test_no_alarm_is_raised(changes):
    assert alarms(history(**changes)) == []


def test_a_metric_that_some_updates_lack_is_judged_by_the_others():
    """No step in the first update, and no judge in the first three: of the
    nine with one the first five average (4 x 0.4 + 0.04) / 5 = 0.328."""
    rows = history(objective__score=0.6, judge__compliance=0.04)
    del rows[0]["policy/approxkl"]
    rows[-1]["policy/approxkl"] = 1.1
    rows[:3] = without_judge(rows[:3])
    big, hacked = alarms(rows)
    assert big.name == "updates too big"
    assert hacked.name == "reward hacking"
    assert "fell from 0.33 to 0.04" in hacked.finding


def test_without_an_update_there_is_no_alarm():
    assert alarms([]) == []
    assert alarms(history()) == []


def test_one_bad_batch_is_no_trend():
    """Lengths halve in the last update alone: the mean of five is 54."""
    assert alarms(history(from_update=12, response__length=29.0)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"response__unique": 0.1},
        {"response__length": 10.0},
        {"objective__entropy": 0.01},
    ],
)
def test_what_a_reward_asks_for_is_an_alarm_only_before_a_judge(changes):
    """The objective rises by 0.2, half of the scores' deviation."""
    rows = history(**changes, objective__rlhf_reward=0.6)
    alone = without_judge(rows)
    assert len(alarms(rows)) == 1
    assert alarms(alone) == []
    for row in alone:
        row["objective/rlhf_reward"] = 0.4
    assert len(alarms(alone)) == 1


def test_a_fall_within_the_noise_is_no_hacking():
    """Compliance of small batches, 0.4 and 0.2 or 0.6 in turn: its steps
    are of 0.2 or 0.4, its first five average 0.4, its last five 0.32."""
    rows = history(objective__score=0.6)
    noise = [0.4, 0.2, 0.6, 0.2, 0.6, 0.2, 0.6, 0.2, 0.4, 0.2, 0.6, 0.2]
    for row, value in zip(rows, noise, strict=True):
        row["judge/compliance"] = value
    assert alarms(rows) == []


def test_a_reward_that_is_not_judged_raises_no_hacking_alarm():
    rows = history(objective__score=2.0, judge__statements=2.0)
    assert alarms(without_judge(rows)) == []


# ---- Runs that provoke them. ----------------------------------------------


def run(reward, model=None, monitor=None, **changes):
    """A small run, as the stage logs it; its tags, and its trainer."""
    settings = {
        "updates": 10,
        "batch_size": 32,
        "num_minibatches": 2,
        "pass_tokens": 0,
        "update_epochs": 4,
        "max_new_tokens": 12,
        "temperature": 1.0,
        "learning_rate": 5e-3,
        "kl_coef": 0.0,
        "missing_eos_penalty": 0.0,
        **changes,
    }
    watch = monitor or (lambda p, texts, _: {"score": [0.0] * len(texts)})
    trainer = build_trainer(grader(reward, watch), PROMPTS, model, **settings)
    kept, triggered = KeptRun(), set()
    for step in trainer:
        ppo.log_step(kept, step, triggered)
    return kept.tags, trainer


REMEDIES = {
    "reward collapse": "Look at a few completions and their scores",
    "KL explosion": "Raise ppo.kl_coef",
    "sampling mismatch": "Sample with ppo.temperature alone",
    "entropy collapse": "Raise ppo.kl_coef",
    "updates too big": "Lower ppo.learning_rate or ppo.update_epochs",
    "policy collapse": "Raise ppo.kl_coef",
    "reward hacking": "raise ppo.kl_coef",
}


@pytest.fixture
def heard(capsys):
    """Check that alarms were printed and tagged, each with its remedy."""

    def check(found, *names):
        tags, _ = found
        shown = capsys.readouterr().out
        for name in names:
            remedy = REMEDIES[name]
            assert remedy in tags[f"alarm: {name}"], tags
            (line,) = [x for x in shown.splitlines() if f": {name}: " in x]
            assert remedy in line
        return tags

    return check


def chance(prompts, completions):
    """What no prefix tells: noise, but of the text alone."""
    return [float(sum(map(ord, text)) % 7) for text in completions]


def test_every_alarm_has_a_case_and_a_remedy():
    assert {name for _, name, _ in CASES} == set(REMEDIES)
    assert [*ADVICE] == [*REMEDIES]


@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_a_constant_reward_is_a_collapse(heard, beta):
    found = run(lambda p, c: [1.0] * len(c), updates=3, kl_coef=beta)
    tags = heard(found, "reward collapse")
    assert tags["alarm: reward collapse"].startswith("update 3: ")


def test_of_a_constant_reward_the_penalty_alone_is_no_gain():
    """Scores of 1 throughout; the objective differs by what k1 of a few
    tokens happens to be."""
    rows = history(
        from_update=1, objective__score=1.0, objective__score_std=0.0
    )
    for update, row in enumerate(rows):
        row["objective/rlhf_reward"] = 1 + 0.0005 * update
    assert [alarm.name for alarm in alarms(rows)] == ["reward collapse"]


def test_a_batch_without_a_rare_reward_is_no_collapse():
    """Two batches of zeros, and then one that has it."""
    rows = history(objective__score=0.0, objective__score_std=0.0)
    assert alarms(rows[:9]) == []
    assert len(alarms(rows[:10])) == 1
    assert alarms([*rows[:9], HEALTHY]) == []


def test_a_huge_learning_rate_makes_updates_too_big(heard):
    """One episode in seven is worth something: the tokens of the others
    become unlikely at once, beyond the clip range."""

    def rare(prompts, completions):
        return [float(worth == 0) for worth in chance(prompts, completions)]

    found = run(rare, updates=3, learning_rate=1.0)
    heard(found, "updates too big", "KL explosion")


@pytest.mark.parametrize("factor", [1.25, 0.8])
def test_another_temperature_is_a_mismatch(heard, monkeypatch, factor):
    """Named in the first update; 512 tokens of a model with an entropy of
    some 2 nats.  Without it nothing is."""

    def sharp():
        model = build_llama(len(build_tokenizer()))
        with torch.no_grad():
            model.base_model.norm.weight.mul_(2.5)
        return model

    options = {
        "updates": 1,
        "batch_size": 128,
        "max_new_tokens": 4,
        "learning_rate": 1e-6,
    }
    free, trainer = run(chance, sharp(), **options)
    assert not free
    assert 1.0 < trainer.history[0]["objective/entropy"] < 4.0

    def sample(*given, temperature, **named):
        return generate(*given, temperature=factor * temperature, **named)

    monkeypatch.setattr("stylerl.ppo.sampler.generate", sample)
    heard(run(chance, sharp(), **options), "sampling mismatch")


RATE = {"learning_rate": 0.5, "update_epochs": 1}  # 5e-3 learns


def test_what_is_far_too_large_is_named_in_the_first_update(heard):
    found = run(chance, updates=1, **RATE)
    heard(found, "updates too big")


def count_a(prompts, completions):
    return [float(text.count("a")) for text in completions]


def one_token(prompts, completions):
    return [float(text[:1].isalpha()) for text in completions]


@pytest.mark.parametrize(("reward", "tokens"), [(count_a, 8), (one_token, 1)])
def test_no_alarm_sounds_while_a_policy_learns(reward, tokens):
    """Up to where it writes little else: three deviations higher at least,
    far from the reference, and much the same each time."""
    trainer = build_trainer(
        grader(reward),
        PROMPTS,
        updates=24,
        batch_size=32,
        num_minibatches=1,
        pass_tokens=0,
        max_new_tokens=tokens,
        temperature=1.0,
        learning_rate=1e-2,
        missing_eos_penalty=0.0,
    )
    steps = list(trainer)
    assert [step.alarms for step in steps] == [[]] * len(steps)
    first, last = steps[0].metrics, steps[-1].metrics
    assert last["objective/score"] > 2 * first["objective/score"]
    assert last["response/unique"] < 0.8 * first["response/unique"]


@pytest.mark.slow
def test_a_reward_for_stopping_collapses_the_policy(heard):
    """All that pays is to have ended by the fourth token: published work
    saw lint-only rewards do the same to completions (arXiv 2605.30478).
    The responses shorten until all siblings are paid, who then teach each
    other nothing."""
    model = build_llama(len(build_tokenizer()))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3
    found = run(
        lambda prompts, completions: [0.0] * len(completions),
        model,
        updates=40,
        batch_size=64,
        max_new_tokens=4,
        missing_eos_penalty=1.0,
        learning_rate=1e-2,
    )
    heard(found, "policy collapse")


def test_a_reward_that_falls_out_with_the_judge_is_hacking(heard):
    """Rewarded: ASCII.  Watched: a judge that likes anything else."""
    reward = share_of(str.isascii)

    def monitor(prompts, completions, finished):
        share = reward(prompts, completions)
        return {
            "score": [1 - x for x in share],
            "compliance": [1 - x for x in share],
        }

    found = run(
        reward,
        monitor=monitor,
        updates=12,
        max_new_tokens=4,
        batch_size=64,
        learning_rate=1e-2,
    )
    heard(found, "reward hacking")
