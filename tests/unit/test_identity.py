"""Who may resume a run: what must be the same, what may change."""

import functools
import importlib.util
import sys

import pytest
import torch
from conftest import build_llama, build_tokenizer
from test_ppo import PROMPTS, make

from stylerl.errors import ConfigError
from stylerl.lm import checkpoint
from stylerl.lm.models import tag_with_judge
from stylerl.ppo import identity
from stylerl.reward.functions import source_digest


def length(prompts, completions):
    return [float(len(text)) for text in completions]


def shorter(prompts, completions):
    return [-float(len(text)) for text in completions]


def trainer(folder, **changes):
    options = {"reward": length, "checkpoint_every": 1, **changes}
    return make(checkpoints=folder, **options)


def model(seed):
    return build_llama(len(build_tokenizer()), seed=seed)


def judged(name):
    """The same weights, trained on other verdicts."""
    same = build_llama(len(build_tokenizer()))
    tag_with_judge(same, name)
    return same


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
        ({"kl_coef": 0.1}, r"ppo\.kl_coef was 0\.05 and is 0\.1: change"),
        ({"stop_strings": ("x",)}, r"stop_strings was \[\] and is \['x'\]"),
        (
            {"clip_coef": 0.5, "seed": 3},
            r"ppo\.clip_coef was 0\.2 and is 0\.5; seed was 0 and is 3",
        ),
        ({"whole_lines": True}, "whole_lines was False and is True"),
        ({"prompts": PROMPTS[1:]}, "run; the prompts changed:"),
        ({"model": model(1)}, "run; the weights of the policy changed:"),
        ({"reference": model(1)}, "the weights of the reference changed"),
        ({"reward": shorter}, "run; the function reward changed:"),
        ({"model": judged("b2")}, "judge was None and is 'b2': change it"),
    ],
)
def test_what_changed_is_named(folder, changes, message):
    with pytest.raises(ConfigError, match=message):
        trainer(folder, **changes).resume()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"updates": 5},
        {"pass_tokens": 1},
        {"checkpoint_every": 7},
        {"reward": max},  # its source cannot be read
    ],
)
def test_what_may_change(folder, changes):
    run = trainer(folder, **changes)
    run.resume()
    assert run.done == 1


def load(folder, text):
    path = folder / f"{folder.name}{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where inspect finds a class's file
    spec.loader.exec_module(module)
    return module.f


ONE = "def f(p, c):\n    return [1.0 for _ in c]\n"
CALLED = (
    "class F:\n    def __call__(self, p, c):\n        return {}\nf = F()\n"
)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (ONE, ONE, True),
        (ONE, "X = 2\n\n" + ONE, True),
        (
            ONE,
            ONE.replace("    return", "    # one\n    return").replace(
                "1.0", "1.00"
            ),
            True,
        ),
        (ONE, ONE.replace("1.0", "2.0"), False),
        (ONE, ONE.replace("p, c", "p, c, w=2"), False),
        (CALLED.format(1), CALLED.format(1), True),
        (CALLED.format(1), CALLED.format(2), False),
        ("f = lambda p, c: 1\n", "f = lambda p, c:  1\n", True),
        ("f = lambda p, c: 1\n", "f = lambda p, c: 2\n", False),
    ],
)
def test_a_function_is_known_by_its_source(before, after, same, tmp_path):
    old, new = load(tmp_path, before), load(tmp_path, after)
    assert source_digest(old) is not None
    assert (source_digest(old) == source_digest(new)) == same
    assert source_digest(functools.partial(new)) == source_digest(new)


def test_a_source_that_cannot_be_read_has_no_digest(tmp_path):
    two = load(tmp_path, "f, g = lambda p, c: 1, lambda p, c: 2\n")
    assert source_digest(two) is None
    assert source_digest(len) is source_digest(None) is None
    assert source_digest(eval("lambda p, c: 1")) is None


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8]
)
def test_a_digest_is_of_every_bit_in_its_place(dtype, monkeypatch):
    def digest(row):
        layer = torch.nn.Module()
        weight = torch.tensor(row).to(dtype)
        layer.w = torch.nn.Parameter(weight, requires_grad=False)
        return identity.digest(layer)

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
    monkeypatch.setattr(identity, "PORTION", 1)  # word by word
    rows = ([1.0, 2, 3, 4, 5, 6, 7, 8, 9], [9.0, 8, 7, 6, 5, 4, 3, 2, 1])
    assert digest(rows[0]) == digest(rows[0]) != digest(rows[1])
