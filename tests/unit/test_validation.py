"""Validation: the policy is measured, and training does not notice."""

import pytest
import torch
from conftest import build_trainer, grader

from stylerl.lm.sampling import generate

VALIDATION = ["def g():\n", "y = "]


class Scripted:
    """Compliance of the validation prompts by update, as given."""

    def __init__(self, values):
        self.values = list(values)

    def __call__(self, prompts, completions, finished):
        held_out = prompts == VALIDATION
        value = self.values.pop(0) if held_out else 0.0
        return {"compliance": [value] * len(prompts)}


def make(values, **changes):
    settings = {
        "updates": 4,
        "batch_size": 4,
        "num_minibatches": 1,
        "max_new_tokens": 4,
        "learning_rate": 1e-3,
        "validate_every": 1,
        "validation": VALIDATION,
        **changes,
    }
    judging = grader(
        lambda p, texts: [float(len(set(t))) for t in texts], Scripted(values)
    )
    return build_trainer(judging, ["x", "def f():\n"], **settings)


def weights(trainer):
    return {k: w.clone() for k, w in trainer.policy.trained().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_it_is_measured_now_and_then_and_after_the_last_update():
    trainer = make([0.1, 0.2], validate_every=3)
    list(trainer)  # to its end
    assert ["validation/kl" in row for row in trainer.history] == [
        False,
        False,
        True,
        True,
    ]


def test_validation_draws_nothing_from_training():
    """The same updates with it and without; the same draws each time."""
    measured, plain, rare = (
        make([0.1, 0.2, 0.3, 0.4], **changes)
        for changes in ({}, {"validation": []}, {"validate_every": 0})
    )
    for trainer in (measured, plain, rare):
        list(trainer)  # to its end
        assert same(weights(trainer), weights(measured))
    found = [row["validation/compliance"] for row in measured.history]
    assert found == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert "validation/kl" in measured.history[0]
    assert "validation/kl" not in plain.history[0] | rare.history[0]
    trainer = make([0.1, 0.1])
    assert trainer.validate() == trainer.validate()


def test_more_prompts_than_a_batch_are_answered_in_batches(monkeypatch):
    """Six prompts in batches of four: the same answers as in one."""
    prompts = [*VALIDATION, "z"] * 2
    one, sizes = make([]), []
    by_default = one.rollout(prompts).completions

    def spy(*given, batch_size, **named):
        sizes.append(batch_size)
        return generate(*given, batch_size=6, **named)

    monkeypatch.setattr("stylerl.ppo.sampler.generate", spy)
    assert one.rollout(prompts).completions == by_default
    assert sizes == [4]
