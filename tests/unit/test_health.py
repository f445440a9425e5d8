"""Every alarm: the figures that raise it, those that do not, and runs that
provoke it."""

import pytest
import torch
from conftest import build_llama, build_tokenizer

from stylerl.lm.sampling import generate
from stylerl.ppo import PPOConfig, PPOTrainer
from stylerl.ppo.health import alarms, markdown
from tasks import ppo

HEALTHY = {
    "objective/score": 0.5,
    "objective/score_std": 0.4,
    "objective/kl": 2.0,
    "objective/entropy": 1.5,
    "policy/clipfrac": 0.15,
    "value/explained_variance": 0.5,
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


CASES = [
    # what is reported, whether it is critical, and what it says
    ({"objective__score": -10.1}, "reward collapse", True, "below -10"),
    ({"objective__score_std": 0.009}, "reward collapse", False, "0.0090"),
    ({"objective__kl": 10.1}, "KL explosion", False, "above 10"),
    ({"objective__kl": 15.1}, "KL explosion", True, "above 15"),
    ({"objective__kl": -1.1}, "negative KL", False, "-1.10 nats"),
    ({"objective__entropy": 0.14}, "entropy collapse", True, "0.140 nats"),
    ({"policy__clipfrac": 0.51}, "updates too big", False, "0.51"),
    (
        {"value__explained_variance": -0.1},
        "value head broken",
        False,
        "-0.10 of the returns",
    ),
    ({"response__unique": 0.44}, "policy collapse", True, "0.9 to 0.44"),
    ({"response__distinct_3": 0.39}, "policy collapse", True, "3-grams"),
    ({"response__length": 29.0}, "policy collapse", True, "60 to 29"),
    (
        {"judge__repeated_lines": 0.26},
        "policy collapse",
        True,
        "repeated lines rose, 0.05 to 0.26",
    ),
    # the reward rises by a quarter of its deviation, 0.1, or more
    (
        {"objective__score": 0.6, "judge__compliance": 0.34},
        "reward hacking",
        True,
        "rose by 0.10 while compliance fell from 0.40 to 0.34",
    ),
    (
        {"objective__score": 0.6, "judge__parse_rate": 0.74},
        "reward hacking",
        True,
        "the parse rate",
    ),
    (
        {"objective__score": 0.6, "judge__statements": 2.7},
        "reward hacking",
        True,
        "the number of statements",
    ),
    (
        {"objective__score": 0.6, "response__length": 41.0},
        "reward hacking",
        True,
        "the length",
    ),
]

QUIET = [
    {},
    {"objective__score": -9.9},
    {"objective__score_std": 0.011},
    {"objective__kl": 9.9},
    {"objective__kl": -0.9},
    {"objective__entropy": 0.16},
    {"policy__clipfrac": 0.5},
    {"value__explained_variance": 0.01},
    # the baseline auto has not used it
    {"value__explained_variance": -0.1, "value__used": 0.0},
    {"response__unique": 0.46},
    {"response__length": 31.0},
    {"judge__repeated_lines": 0.24},
    # style falls without a gain, or the reward rises with it
    {"objective__score": 0.55, "judge__compliance": 0.2},
    {"objective__score": 0.9, "judge__compliance": 0.8},
    {"objective__score": 0.6, "judge__compliance": 0.36},
    # nothing is left to explain where all episodes are worth the same
    {"value__explained_variance": -9.0, "objective__score_std": 0.02},
]


@pytest.mark.parametrize(("changes", "name", "critical", "words"), CASES)
def test_an_alarm_is_raised(changes, name, critical, words):
    (alarm,) = alarms(history(**changes))
    assert (alarm.name, alarm.critical) == (name, critical)
    assert words in alarm.finding
    assert "ppo." in alarm.remedy or "completions" in alarm.remedy
    assert str(alarm).startswith(f"{name}: ")


@pytest.mark.parametrize("changes", QUIET[:-1])
def test_no_alarm_is_raised(changes):
    assert alarms(history(**changes)) == []


def test_a_constant_reward_has_no_value_to_explain():
    found = alarms(
        history(
            **{
                "value__explained_variance": -9.0,
                "objective__score_std": 0.009,
            }
        )
    )
    assert [alarm.name for alarm in found] == ["reward collapse"]


def test_without_an_update_there_is_no_alarm():
    assert alarms([]) == []
    assert markdown([]) == markdown(history()) == ""


def test_the_table_says_when_an_alarm_sounded():
    """KL passes 15 in updates 8 to 12."""
    rows = markdown(history(objective__kl=16.0)).splitlines()
    assert rows[2].startswith(
        "| KL explosion | 5, from 8 to 12 | KL to the reference is 16.0"
    )
    assert "Raise ppo.kl_coef" in rows[2]
    assert len(rows) == 3


def test_one_bad_batch_is_no_trend():
    """Lengths halve in the last update alone: the mean of five is 54."""
    assert alarms(history(from_update=12, response__length=29.0)) == []


def test_a_reward_that_is_not_judged_raises_no_hacking_alarm():
    bare = [
        {k: v for k, v in row.items() if not k.startswith("judge/")}
        for row in history(objective__score=2.0, response__length=41.0)
    ]
    assert alarms(bare) == []


# ---- Runs that provoke them. ----------------------------------------------


class Tags(dict):
    """Stands for an MLflow run, whose tags it takes."""

    def log_metrics(self, numbers, step):
        pass

    def log_table(self, name, table):
        pass

    def log_tag(self, name, value):
        self[name] = value


def run(reward, model=None, monitor=None, reference=None, **changes):
    """A small run, as the stage logs it; its tags, and its trainer."""
    tokenizer = build_tokenizer()
    settings = {
        "updates": 10,
        "batch_size": 32,
        "num_minibatches": 2,
        "update_epochs": 4,
        "max_new_tokens": 12,
        "precision": "fp32",
        "temperature": 1.0,
        "learning_rate": 5e-3,
        "kl_coef": 0.0,
        "warmup": 0.0,
        "missing_eos_penalty": 0.0,
        "schedule": "constant",
        "checkpoint_every": 0,
        "baseline": "value",
        **changes,
    }
    trainer = PPOTrainer(
        PPOConfig(**settings),
        policy=model or build_llama(len(tokenizer)),
        tokenizer=tokenizer,
        reward=reward,
        prompts=["def f():\n", "x"],
        monitor=monitor or (lambda p, texts, _: {"score": [0.0] * len(texts)}),
        reference=reference,
    )
    tags, triggered = Tags(), set()
    for step in trainer:
        ppo.log_step(tags, step, triggered)
    return tags, trainer


REMEDIES = {
    "reward collapse": "Look at a few completions and their scores",
    "KL explosion": "Raise ppo.kl_coef",
    "negative KL": "Sample with ppo.temperature alone",
    "entropy collapse": "Raise ppo.ent_coef",
    "updates too big": "Lower ppo.learning_rate or ppo.update_epochs",
    "value head broken": "Lower ppo.value_learning_rate",
    "policy collapse": "Raise ppo.kl_coef",
    "reward hacking": "raise ppo.kl_coef",
}


@pytest.fixture
def heard(capsys):
    """Check that alarms were printed once, tagged, and are in the table of
    the flow's artifact, each with its remedy."""

    def check(found, *names):
        tags, trainer = found
        shown = capsys.readouterr().out
        table = markdown(trainer.history)
        for name in names:
            remedy = REMEDIES[name]
            assert remedy in tags[f"alarm: {name}"], tags
            lines = [x for x in shown.splitlines() if f": {name}: " in x]
            assert len(lines) == 1
            assert remedy in lines[0]
            (row,) = [x for x in table.splitlines() if x[2:].startswith(name)]
            assert remedy in row
        return tags

    return check


def chance(prompts, completions):
    """What no prefix tells: noise, but of the text alone."""
    return [float(sum(map(ord, text)) % 7) for text in completions]


def test_every_alarm_has_a_remedy_that_is_provoked_here():
    assert {name for _, name, _, _ in CASES} == set(REMEDIES)


def test_a_constant_reward_is_a_collapse(heard):
    found = run(lambda p, c: [1.0] * len(c), updates=1)
    tags = heard(found, "reward collapse")
    assert tags["alarm: reward collapse"].startswith("update 1: ")


def test_a_huge_learning_rate_makes_updates_too_big(heard):
    """One episode in seven is worth something: the tokens of the others
    become unlikely at once, beyond the clip range."""

    def rare(prompts, completions):
        return [float(worth == 0) for worth in chance(prompts, completions)]

    found = run(rare, updates=3, learning_rate=1.0)
    heard(found, "updates too big", "KL explosion")


def test_another_temperature_makes_the_estimate_of_kl_negative(
    heard, monkeypatch
):
    """The policy would end its text, the reference would not, and tokens are
    drawn at a temperature at which neither does: what is drawn is less likely
    under the policy than under the reference."""

    def eager_to_end():
        model = build_llama(len(build_tokenizer()))
        states = model.base_model(torch.arange(1, 60)[None])[0][0]
        head = torch.nn.Linear(32, len(build_tokenizer()), bias=False)
        with torch.no_grad():
            head.weight.copy_(model.lm_head.weight)
            head.weight[1] = 2 * states.mean(dim=0)
        model.lm_head = head
        return model

    options = {
        "reference": build_llama(len(build_tokenizer())),
        "updates": 1,
        "batch_size": 64,
    }
    free, _ = run(chance, eager_to_end(), **options)
    assert "alarm: negative KL" not in free

    def sample_hot(*given, temperature, **named):
        return generate(*given, temperature=20 * temperature, **named)

    monkeypatch.setattr("stylerl.ppo.trainer.generate", sample_hot)
    found = run(chance, eager_to_end(), **options)
    heard(found, "negative KL")


def test_a_value_that_leaps_about_is_broken(heard):
    found = run(
        chance,
        max_new_tokens=4,
        learning_rate=1e-6,
        value_learning_rate=1.0,
    )
    tags = heard(found, "value head broken")
    assert tags["alarm: value head broken"].startswith("update 10: ")


@pytest.mark.slow
def test_a_reward_for_stopping_collapses_the_policy(heard):
    """All that pays is to have ended by the fourth token: published work
    saw lint-only rewards do the same to completions (arXiv 2605.30478).
    The responses shorten to eos alone, and nothing is left to chance."""
    model = build_llama(len(build_tokenizer()))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3
    found = run(
        lambda prompts, completions: [0.0] * len(completions),
        model,
        updates=28,
        batch_size=64,
        max_new_tokens=4,
        missing_eos_penalty=1.0,
        learning_rate=1e-2,
        value_learning_rate=1e-2,
        ent_coef=0.0,  # the remedy, which would help
    )
    heard(found, "policy collapse", "entropy collapse")


def test_a_reward_that_falls_out_with_the_judge_is_hacking(heard):
    """Rewarded: ASCII.  Watched: a judge that likes anything else."""

    def ascii_share(text):
        return sum(c.isascii() for c in text) / max(len(text), 1)

    def reward(prompts, completions):
        return [ascii_share(text) for text in completions]

    def monitor(prompts, completions, finished):
        share = [ascii_share(text) for text in completions]
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
