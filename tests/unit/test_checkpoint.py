"""Checkpoints: whole, few, and the state they carry."""

import shutil

import pytest
import torch
from conftest import files_of_at_most

from stylerl.errors import DataError, DiskError
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


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("policy.safetensors", b""),
        ("policy.safetensors", None),
        ("state.json", b"{}"),
        ("state.json", b'{"value": '),
        ("state.json", None),
    ],
)
def test_a_damaged_checkpoint_is_one_clear_error(tmp_path, name, left):
    """Without it the run goes on from the one before it."""
    save(tmp_path, make(1))
    file = save(tmp_path, make(2)) / name
    file.unlink() if left is None else file.write_bytes(left)
    with pytest.raises(DataError, match="000002 is damaged .*: delete it"):
        latest(tmp_path)
    shutil.rmtree(file.parent)
    assert latest(tmp_path).update == 1


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
