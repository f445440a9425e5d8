"""The table of rivals, from what was kept of them."""

import json

import pytest

from stylerl.errors import DataError
from stylerl.evaluation import guards
from tools import rivals, runs


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Keeps runs, of seed 0 by default, as the only ones that there are."""
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    monkeypatch.setattr(guards, "goals", lambda metrics: [])
    monkeypatch.setattr(guards, "guards", lambda metrics: [])

    def write(kind, of_sft, gain, seconds=None, seed=0):
        own = dict.fromkeys(rivals.OWN, 0.5)
        evaluated = {
            "sft": own | {"residual_compliance": of_sft},
            "ppo": own,
            "gain": {
                key + end: gain + by
                for key in rivals.BESIDE
                for end, by in (("", 0), ("_low", -0.01), ("_high", 0.01))
            },
        }
        text = json.dumps({"seconds": seconds, "evaluate": evaluated})
        (tmp_path / f"{kind}-{seed}.json").write_text(text)

    return write


def test_a_rival_stands_below_ppo_with_its_minutes(keep):
    keep("seed", 0.75, 0.02, seconds=2000)  # of a whole run: not PPO's
    keep("raft", 0.75, -0.03, seconds=420)
    _, _, sft, ppo, raft = rivals.trained().splitlines()
    assert sft.startswith("| SFT | – | – | – | – | 75.0 |")
    assert ppo.startswith(f"| PPO |{' +2.0 [+1.0, +3.0] |' * 4} 50.0 |")
    assert ppo.endswith("| – | none |")
    assert raft.startswith(f"| RAFT |{' -3.0 [-4.0, -2.0] |' * 4} 50.0 |")
    assert raft.endswith("| 7 | none |")


def test_raft_is_beside_ppo_over_the_seeds_of_both(keep):
    """Of PPO's 2, 3 and 9 points seed 2 has no RAFT.  Over two seeds the mean
    2.5 has 12.706 * sqrt(0.5 / 2) = 6.4 on both sides; RAFT's -3 and -2 too;
    5 and 5 lie between them, with no spread."""
    for seed, gain in enumerate((0.02, 0.03, 0.09)):
        keep("seed", 0.75, gain, seed=seed)
    for seed, gain in enumerate((-0.03, -0.02)):
        keep("raft", 0.75, gain, seed=seed)
    rows = rivals.nearest().splitlines()
    assert rows[0].endswith("| seed 0: PPO, RAFT | seed 1: PPO, RAFT |")
    joint = next(row for row in rows if "right and compliant" in row)
    assert joint.endswith(
        "| +2.5 [-3.9, +8.9] | -2.5 [-8.9, +3.9] | +5.0 [+5.0, +5.0] "
        "| +2.0*, -3.0* | +3.0*, -2.0* |"
    )


def test_a_rival_of_another_sft_model_is_refused(keep):
    keep("seed", 0.75, 0.02)
    keep("raft", 0.70, 0.02)
    with pytest.raises(
        DataError, match="raft must be measured beside the SFT model"
    ):
        rivals.trained()


def test_what_was_not_kept_is_named(keep):
    keep("seed", 0.75, 0.02)
    with pytest.raises(DataError, match="no run of last-token was kept"):
        rivals.credit()
    with pytest.raises(DataError, match="two runs or more; got 0"):
        rivals.choosing()
