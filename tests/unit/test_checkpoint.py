"""Checkpoints: whole or not used, few, and the state they carry."""

import random

import numpy as np
import pytest
import torch

from stylerl.lm import checkpoint
from stylerl.lm.checkpoint import (
    Checkpoint,
    latest,
    remove_after,
    save,
    updates_in,
)


def make(update, value=1.0):
    tensors = {"policy": {"w": torch.full((3,), value)}, "optimiser": {}}
    return Checkpoint(update, tensors, {"value": value})


def test_the_newest_comes_back_and_two_are_kept(tmp_path):
    for update in (5, 10, 100, 1000):
        save(tmp_path, make(update, float(update)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000100", "001000"]
    found = latest(tmp_path)
    assert found.update == 1000
    assert found.state == {"value": 1000.0}
    assert found.tensors["policy"]["w"].tolist() == [1000.0] * 3
    assert found.tensors["optimiser"] == {}


def test_to_go_back_to_some_are_kept_of_every_age(tmp_path):
    """After update 12, of every one: the newest two, the first, and the
    oldest that were 1, 2 to 3, 4 to 7 and 8 to 11 updates old."""
    for update in range(13):
        save(tmp_path, make(update), spread=True)
        assert {0, update, max(0, update - 1)} <= {*updates_in(tmp_path)}
    kept = updates_in(tmp_path)
    ages = [12 - update for update in kept]
    assert ages[:2] == [0, 1] and ages[-1] == 12
    assert any(age in (2, 3) for age in ages)
    assert any(4 <= age <= 7 for age in ages)
    assert len(kept) <= 6
    assert latest(tmp_path, 4).update == max(u for u in kept if u <= 4)
    assert latest(tmp_path, -1) is None
    remove_after(tmp_path, 4)
    assert max(updates_in(tmp_path)) <= 4


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: (p / "policy.safetensors").write_bytes(b""),
        lambda p: (p / "policy.safetensors").unlink(),
        lambda p: (p / "policy.safetensors").write_bytes(
            (p / "policy.safetensors").read_bytes()[:-1] + b"\1"
        ),
        lambda p: (p / "state.json").unlink(),
        lambda p: (p / "state.json").write_text('{"digests": {'),
        lambda p: (p / "state.json").write_text("{}"),
        lambda p: (p / "state.json").write_text("[]"),
        lambda p: (p / "state.json").write_text(
            (p / "state.json").read_text().replace("1.0", "1.5")
        ),
    ],
    ids=[
        *("empty", "missing", "one bit", "no state", "torn state", "no keys"),
        *("a list", "one digit"),
    ],
)
def test_a_torn_checkpoint_is_noticed_and_the_one_before_used(
    tmp_path, damage, caplog
):
    save(tmp_path, make(1))
    damage(save(tmp_path, make(2)))
    assert latest(tmp_path).update == 1
    assert "000002 is torn" in caplog.text


def test_scraps_of_a_killed_process_are_removed(tmp_path):
    scrap = tmp_path / ".000004.999.partial"
    scrap.mkdir(parents=True)
    (scrap / "policy.safetensors").write_bytes(b"half")
    save(tmp_path, make(5))
    assert [p.name for p in tmp_path.iterdir()] == ["000005"]


def test_random_generators_go_on_where_they_were():
    state = checkpoint.random_state()
    drawn = [random.random(), np.random.rand(), torch.rand(3).tolist()]
    random.random(), np.random.rand(), torch.rand(1)
    checkpoint.restore_random_state(state)
    again = [random.random(), np.random.rand(), torch.rand(3).tolist()]
    assert drawn == again


def test_an_optimiser_goes_on_where_it_was():
    def steps(weight, optimiser, count):
        for _ in range(count):
            (weight**2).sum().backward()
            optimiser.step()
            optimiser.zero_grad()

    def start():
        weight = torch.tensor([1.0, -2.0], requires_grad=True)
        return weight, torch.optim.Adam([weight], lr=0.1)

    weight, optimiser = start()
    steps(weight, optimiser, 5)
    other, restored = start()
    steps(other, restored, 2)
    saved = checkpoint.optimiser_tensors(restored)
    again = other.detach().clone().requires_grad_()
    fresh = torch.optim.Adam([again], lr=0.1)
    checkpoint.restore_optimiser(fresh, saved)
    steps(again, fresh, 3)
    assert torch.equal(again, weight)
