"""Who may resume a run: what must be the same, what may change."""

import pytest
import torch
from conftest import build_llama, build_tokenizer
from test_ppo import PROMPTS, make

from stylerl.errors import ConfigError
from stylerl.lm import checkpoint
from stylerl.ppo import identity


def length(prompts, completions):
    return [float(len(text)) for text in completions]


def trainer(folder, **changes):
    options = {"reward": length, "checkpoint_every": 1, **changes}
    return make(checkpoints=folder, **options)


def model(seed):
    return build_llama(len(build_tokenizer()), seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of one update of two."""
    folder = tmp_path_factory.mktemp("run")
    next(iter(run := trainer(folder)))
    run.save()
    return folder


@pytest.mark.parametrize("state", [{"run": 3}, {"identity": {}}])
def test_a_checkpoint_of_another_version_is_refused(tmp_path, state):
    """As 0.1.0 wrote them, under other names, or without a format."""
    checkpoint.save(tmp_path, checkpoint.Checkpoint(1, {}, state))
    with pytest.raises(ConfigError, match="it was made by another version"):
        trainer(tmp_path).resume()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kl_coef": 0.1}, r"run; changed since: ppo\.kl_coef: change it"),
        ({"clip_coef": 0.5, "seed": 3}, r"ppo\.clip_coef, seed: change it"),
        ({"prompts": PROMPTS[1:]}, "since: prompts:"),
        ({"model": model(1)}, "since: weights:"),
        ({"reference": model(1)}, "since: weights:"),
    ],
)
def test_what_changed_is_named(folder, changes, message):
    with pytest.raises(ConfigError, match=message):
        trainer(folder, **changes).resume()


def test_a_setting_that_has_come_or_gone_is_a_change(folder):
    run = trainer(folder)
    run._identity["ppo.added"] = 3
    with pytest.raises(ConfigError, match=r"ppo\.added: change it"):
        run.resume()


@pytest.mark.parametrize(
    "changes",
    [{}, {"updates": 5}, {"pass_tokens": 1}, {"checkpoint_every": 7}],
)
def test_what_may_change(folder, changes):
    run = trainer(folder, **changes)
    run.resume()
    assert run.done == 1


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8]
)
def test_a_digest_is_of_every_bit_in_its_place(dtype):
    def digest(row):
        layer = torch.nn.Module()
        weight = torch.tensor(row).to(dtype)
        layer.w = torch.nn.Parameter(weight, requires_grad=False)
        return identity.digest([None, layer])

    found = {
        digest([1, 2, 3]),
        digest([1, 3, 2]),
        digest([3, 2, 1]),
        digest([1, 2, 4]),
        digest([0, 0, 0]),
        digest([0, 0]),
        digest([2, 2, 2]),
    }
    assert len(found) == 7
