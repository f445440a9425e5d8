"""The best update: held-out, within the KL budget, and kept over a stop."""

import pytest
import torch
from conftest import build_llama, build_tokenizer

from stylerl.errors import ConfigError
from stylerl.lm.sampling import generate
from stylerl.ppo import PPOConfig, PPOTrainer
from stylerl.ppo.selection import Best, is_better, quality

VALIDATION = ["def g():\n", "y = "]


def numbers(score=0.0, kl=1.0, **others):
    return {"validation/score": score, "validation/kl": kl, **others}


@pytest.mark.parametrize(
    ("found", "best", "budget", "better"),
    [
        (numbers(score=-5.0), None, 2.0, True),  # the first one within it
        (numbers(score=0.6), 0.5, 2.0, True),
        (numbers(score=0.5), 0.5, 2.0, False),  # the first of equals stays
        (numbers(score=0.9, kl=2.0), 0.5, 2.0, True),
        (numbers(score=0.9, kl=2.1), 0.5, 2.0, False),
        (numbers(score=0.9, kl=2.1), None, 2.0, False),
        (numbers(score=0.9, kl=99.0), 0.5, None, True),
    ],
)
def test_what_takes_the_place_of_the_best(found, best, budget, better):
    kept = None if best is None else Best(1, best, {})
    assert is_better(found, kept, budget) is better


def test_compliance_counts_before_the_score():
    assert quality(numbers(score=0.2)) == 0.2
    assert quality(numbers(score=0.2, **{"validation/compliance": 0.0})) == 0


class Scripted:
    """Compliance of the validation prompts by update, as given."""

    def __init__(self, values):
        self.values = list(values)

    def __call__(self, prompts, completions, finished):
        held_out = prompts == VALIDATION
        value = self.values.pop(0) if held_out else 0.0
        return {"compliance": [value] * len(prompts)}


def make(values, **changes):
    tokenizer = build_tokenizer()
    options = {
        name: changes.pop(name)
        for name in ("checkpoints", "validation", "reward")
        if name in changes
    }
    settings = {
        "updates": 4,
        "batch_size": 4,
        "num_minibatches": 1,
        "max_new_tokens": 4,
        "learning_rate": 1e-3,
        "precision": "fp32",
        "checkpoint_every": 1,
        "keep": "best",
        "validate_every": 1,
        "kl_budget": None,
        **changes,
    }
    return PPOTrainer(
        PPOConfig(**settings),
        policy=build_llama(len(tokenizer)),
        tokenizer=tokenizer,
        monitor=Scripted(values),
        prompts=["x", "def f():\n"],
        **{
            "validation": VALIDATION,
            "reward": lambda p, c: [float(len(set(t))) for t in c],
            **options,
        },
    )


def weights(trainer):
    return {k: w.clone() for k, w in trainer.policy.trained().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def run(trainer, stop_after=99):
    """The weights after each update, in a run to the end or a part of it."""
    seen = {}
    for step in trainer:
        seen[step.update] = weights(trainer)
        if step.update == stop_after:
            break
    return seen


def test_the_policy_ends_with_the_best_weights():
    trainer = make([0.1, 0.7, 0.4, 0.7])
    seen = run(trainer)
    assert trainer.best.update == 2
    assert trainer.best.quality == pytest.approx(0.7)
    assert same(weights(trainer), seen[2])
    assert not same(seen[4], seen[2])
    found = [row["validation/compliance"] for row in trainer.history]
    assert found == pytest.approx([0.1, 0.7, 0.4, 0.7])


def test_it_is_measured_now_and_then_and_after_the_last_update():
    trainer = make([0.1, 0.2], validate_every=3)
    run(trainer)
    assert ["validation/kl" in row for row in trainer.history] == [
        False,
        False,
        True,
        True,
    ]


def test_validation_draws_nothing_from_training():
    """The same updates with it and without; the same draws each time."""
    chosen, measured, plain, rare = (
        make([0.1, 0.2, 0.3, 0.4], **changes)
        for changes in (
            {},
            {"keep": "last"},
            {"keep": "last", "validation": []},
            {"keep": "last", "validate_every": 0},
        )
    )
    for trainer in (chosen, measured, plain, rare):
        run(trainer)
        assert same(weights(trainer), weights(chosen))
    assert chosen.best.update == 4 and measured.best is None
    assert "validation/kl" in measured.history[0]
    assert "validation/kl" not in plain.history[0] | rare.history[0]
    trainer = make([0.1, 0.1])
    assert trainer.validate() == trainer.validate()


def test_a_run_that_goes_on_knows_its_best(tmp_path):
    """Stopped after update 3, whose best was 2, and gone on with."""
    whole = make([0.1, 0.7, 0.4, 0.2])
    run(whole)
    run(make([0.1, 0.7, 0.4], checkpoints=tmp_path), stop_after=3)
    trainer = make([0.2], checkpoints=tmp_path)
    run(trainer)
    assert trainer.best.update == 2
    assert trainer.history == whole.history
    assert same(weights(trainer), weights(whole))
    again = make([], checkpoints=tmp_path)  # nothing is left to do
    run(again)
    assert same(weights(again), weights(whole))


def test_an_ill_update_is_never_the_best(tmp_path):
    """Update 3 is graver than any compliance: it is not even measured.  Its
    rollouts are those of update 2's weights, so these are not kept either."""
    calls = []

    def reward(prompts, completions):
        calls.append(1)
        sick = len(calls) == 5  # two calls an update: train, validate
        return [-20.0 if sick else float(len(set(t))) for t in completions]

    trainer = make(
        [0.1, 0.2, 0.9],
        reward=reward,
        on_alarm="stop",
        checkpoints=tmp_path,
    )
    seen = run(trainer)
    assert sorted(seen) == [1, 2, 3]
    assert trainer.stopped.name == "reward collapse"
    assert trainer.best.update == 1
    assert same(weights(trainer), seen[1])


def test_more_prompts_than_a_batch_are_answered_in_batches(monkeypatch):
    """Six prompts in batches of four: the same answers as in one."""
    prompts = [*VALIDATION, "z"] * 2
    one, sizes = make([]), []
    one.monitor = None
    by_default = one.rollout(prompts).completions

    def spy(*given, batch_size, **named):
        sizes.append(batch_size)
        return generate(*given, batch_size=6, **named)

    monkeypatch.setattr("stylerl.ppo.sampler.generate", spy)
    assert one.rollout(prompts).completions == by_default
    assert sizes == [4]


def test_to_choose_there_must_be_prompts():
    with pytest.raises(ConfigError, match="at least 1; got 0"):
        make([], validation=[])
