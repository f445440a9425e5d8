"""Checkpoints: whole or not used, few, and the state they carry."""

import random

import pytest
import torch
from conftest import files_of_at_most

from stylerl.errors import DiskError
from stylerl.lm import checkpoint
from stylerl.lm.checkpoint import Checkpoint, latest, save


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


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nowhere") is None


DAMAGES = {
    "empty": ("policy.safetensors", lambda was: b""),
    "missing": ("policy.safetensors", lambda was: None),
    "one bit": ("policy.safetensors", lambda was: was[:-1] + b"\1"),
    "no state": ("state.json", lambda was: None),
    "torn state": ("state.json", lambda was: b'{"digests": {'),
    "no keys": ("state.json", lambda was: b"{}"),
    "a list": ("state.json", lambda was: b"[]"),
    "one digit": ("state.json", lambda was: was.replace(b"1.0", b"1.5")),
    "no digest": ("state.json", lambda was: was.replace(b'"digest"', b'""')),
    "numbers": ("state.json", lambda was: b'{"digests": 3, "state": 3}'),
    "deep": ("state.json", lambda was: b"[" * 100_000),
    "no text": ("state.json", lambda was: b"\xff\xfe{}"),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_torn_checkpoint_is_noticed_and_the_one_before_used(
    tmp_path, name, damage, caplog
):
    save(tmp_path, make(1))
    file = save(tmp_path, make(2)) / name
    left = damage(file.read_bytes())
    file.unlink() if left is None else file.write_bytes(left)
    assert latest(tmp_path).update == 1
    assert "000002 is torn" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p.write_text("no folder"),
        lambda p: p.symlink_to("/nonexistent"),
        lambda p: p.with_name("2²").mkdir(),
    ],
)
def test_what_is_no_checkpoint_is_not_read_and_stays(tmp_path, damage):
    save(tmp_path, make(1))
    damage(tmp_path / "000002")
    assert latest(tmp_path).update == 1
    for update in (3, 4, 5):
        save(tmp_path, make(update))
    assert len([*tmp_path.iterdir()]) == 3
    assert {p.name for p in tmp_path.iterdir()} >= {"000004", "000005"}


def test_a_bit_that_changed_is_noticed_or_means_nothing(tmp_path):
    save(tmp_path, make(1))
    path, rng = save(tmp_path, make(2)), random.Random(0)
    for _ in range(60):
        file = rng.choice(sorted(path.iterdir()))
        before = file.read_bytes()
        bit = rng.randrange(8 * len(before))
        after = bytearray(before)
        after[bit // 8] ^= 1 << bit % 8
        file.write_bytes(after)
        found = latest(tmp_path)
        # some bits of state.json are spaces
        if found.update == 2:
            assert found.state == make(2).state
            weights = found.tensors["policy"]["w"]
            assert torch.equal(weights, make(2).tensors["policy"]["w"])
            assert found.tensors["optimiser"] == {}
        file.write_bytes(before)
    assert latest(tmp_path).update == 2


def test_a_checkpoint_that_has_no_room_leaves_the_one_before(tmp_path):
    save(tmp_path, make(1))
    with files_of_at_most(64), pytest.raises(DiskError, match="make room"):
        save(tmp_path, make(2))
    assert [p.name for p in tmp_path.iterdir()] == ["000001"]
    assert latest(tmp_path).update == 1


def test_scraps_of_a_killed_process_are_removed(tmp_path):
    scrap = tmp_path / ".000004.999.partial"
    scrap.mkdir(parents=True)
    (scrap / "policy.safetensors").write_bytes(b"half")
    save(tmp_path, make(5))
    assert [p.name for p in tmp_path.iterdir()] == ["000005"]


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
