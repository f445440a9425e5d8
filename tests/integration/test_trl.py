"""Our formulas against TRL 1.12's own lines, on the same tensors.

benchmarks/trl_fixture.py made the fixture.  Where every response has its full
length the two agree to 1e-6; where responses end earlier TRL's score stands
one place behind the response, which ours does not repeat.
"""

import json
from pathlib import Path

import pytest
import torch

from stylerl.ppo import formulas as pm

FIXTURE = json.loads(
    (Path(__file__).parent.parent / "data" / "trl_1_12.json").read_text()
)
SETTINGS = FIXTURE["settings"]


def load(name):
    """Inputs with our mask, and TRL's outputs."""
    case = FIXTURE["cases"][name]
    given = {key: torch.tensor(v) for key, v in case["inputs"].items()}
    theirs = {key: torch.tensor(v) for key, v in case["outputs"].items()}
    lengths = given["sequence_lengths"] + 1
    mask = torch.arange(5) < lengths[:, None]
    return given, theirs, lengths, mask


def ours(given, lengths, mask):
    """The same quantities by our functions."""
    kl = pm.kl_k1(given["logprobs"], given["ref_logprobs"]) * mask
    rewards = pm.penalised_rewards(
        given["scores"], torch.zeros_like(kl), kl, lengths, SETTINGS["kl_coef"]
    )
    return {"kl": kl, "rewards": rewards}


def close(a, b):
    return torch.allclose(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["kl", "rewards"])
def test_full_responses_agree(name):
    given, theirs, lengths, mask = load("full")
    assert close(ours(given, lengths, mask)[name], theirs[name])


def test_losses_agree():
    """Of TRL's advantages, which are those over a value."""
    given, theirs, _, _ = load("full")
    ratio = pm.ratio_of(given["new_logprobs"], given["logprobs"])
    loss, _ = pm.policy_loss(
        ratio, theirs["advantages"], SETTINGS["cliprange"]
    )
    assert close(loss.mean(), theirs["pg_loss"])


def test_trl_puts_the_score_on_a_pad_and_ours_stands_on_the_last_action():
    """Rows end at 4, 2 and 0.  In TRL's rewards the score of row 1 stands
    at 3 and that of row 2 at 1: places that hold no action."""
    given, theirs, lengths, mask = load("padded")
    found = ours(given, lengths, mask)["rewards"]
    penalty = -SETTINGS["kl_coef"] * (
        given["logprobs"] - given["ref_logprobs"]
    )
    for row, last in enumerate((4, 2, 0)):
        score = given["scores"][row]
        assert close(found[row, last], penalty[row, last] + score)
        assert not found[row, last + 1 :].any()
        if last < 4:
            assert close(theirs["rewards"][row, last + 1], score)
            assert not mask[row, last + 1]
