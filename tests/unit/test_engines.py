"""The reward of every token, as other engines get it."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from conftest import build_llama, build_tokenizer

from stylerl import config
from stylerl.config import Params
from stylerl.engines import handover
from stylerl.engines.token_level import advantages, token_rewards
from stylerl.errors import DataError
from stylerl.judge.place import File, Place
from stylerl.lm.saving import save_model
from stylerl.reward.functions import TokenReward
from stylerl.reward.other_trainers import Scored, TextReward

PROMPT = "def add(a, b):\n"


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        # The token of the fifth character lost 2 of the score, which is 3.
        (1.0, [0, -2, 5]),
        (4.0, [0, -8, 5]),
    ],
)
def test_the_last_token_gets_what_no_other_has(weight, expected):
    tokenizer = build_tokenizer()
    ids = [*tokenizer("ab")["input_ids"], tokenizer.eos_token_id]
    assert len(ids) == 3  # a byte is a token here
    scored = [Scored(3.0, [TokenReward(1, -2.0)])]
    (rewards,) = token_rewards(scored, tokenizer, [ids], weight)
    assert rewards.tolist() == expected


@pytest.mark.parametrize(
    "text",
    ["    return a + b\n", "    return a+b\n", "    return (\n", "\tc=1;\n"],
)
def test_the_rewards_of_a_response_sum_to_its_score(text):
    tokenizer = build_tokenizer()
    params = config.override(Params(), {"ppo.reward": {"linter": 2.5}})
    reward = TextReward(params, tokenizer)
    ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    scored = reward.scored([PROMPT], [text], [ids])
    (rewards,) = token_rewards(scored, tokenizer, [ids])
    torch.testing.assert_close(
        rewards.sum(), torch.tensor(reward([PROMPT], [text], [ids])[0])
    )


def test_an_advantage_keeps_the_place_of_a_charge():
    """Of one prompt (-1, 2) and (0, 2), lambda 1: returns (1, 2) and (2, 2),
    each less the other's (-1, 0) and (1, 0), of one size by their deviation,
    sqrt((1 + 1) / (6 - 1)); an answer alone has none."""
    rewards = torch.tensor([[-1.0, 2], [0, 2], [3, 4]])
    ones = torch.ones(3, 2)
    ahead, returns = advantages(rewards, ones, ["a", "a", "b"])
    assert returns.tolist() == [[1, 2], [2, 2], [7, 4]]
    size = (2 / 5) ** 0.5
    expected = torch.tensor([[-1 / size, 0], [1 / size, 0], [0, 0]])
    torch.testing.assert_close(ahead, expected)


@pytest.fixture(scope="module")
def sft(tmp_path_factory):
    """A tiny model that learnt with 8 tokens of context."""
    folder = tmp_path_factory.mktemp("sft")
    tokenizer = build_tokenizer()
    model = build_llama(len(tokenizer))
    model.config.context = 8
    save_model(model, tokenizer, folder)
    return folder


def handed(sft, out, prompts, places=(), **changes):
    params = config.override(Params(), changes)
    return handover.write(out, sft, params, prompts, dict(places))


def test_what_is_handed_over_fits_and_stands_in_its_file(
    sft, tmp_path, monkeypatch
):
    """Of 1,024 positions 128 are to be written; the long one has 3,000."""
    lines = ["import os", "", "", "def add(a, b):", "    return a", ""]
    head = f"{lines[3]}\n"
    place = Place(File(lines, "add.py"), 4, f"{head}{lines[4]}\n", head)
    texts = {"train": ["x" * 3000, head], "valid": ["def f():\n", head]}
    monkeypatch.chdir(tmp_path)
    Path("own.cfg").write_text("[flake8]\nmax-line-length = 99\n")
    line = handed(
        sft, tmp_path / "out", texts, {head: place},
        **{"judge.config": "own.cfg", "ppo.updates": 7},
    )  # fmt: skip
    (train,) = pd.read_parquet(tmp_path / "out/train.parquet").to_dict(
        "records"
    )
    assert [each["content"] for each in train["prompt"]] == ["\n\n", head]
    info = {"file_text": "\n".join(lines), "line": 4, "file_path": "add.py"}
    assert train["extra_info"] == info
    assert len(pd.read_parquet(tmp_path / "out/valid.parquet")) == 2
    kept = config.load(tmp_path / "out/params.yaml").judge.config
    assert kept == str(tmp_path / "own.cfg")  # whatever it names beside it
    settings = {
        "trainer.save_freq=7",
        "algorithm.adv_estimator=stylerl",
        "actor_rollout_ref.actor.kl_loss_coef=0.05",
        "data.max_response_length=128",
    }
    assert settings <= set(line.split())
    assert (tmp_path / "out/launch.sh").read_text() == line


def test_prompts_without_a_place_are_handed_over_too(sft, tmp_path):
    handed(sft, tmp_path, {"train": ["def f():\n"], "valid": ["a\n"]})
    found = pd.read_parquet(tmp_path / "train.parquet")
    assert found["extra_info"][0]["file_text"] is None


def test_what_verl_could_not_train(sft, tmp_path):
    with pytest.raises(DataError, match="of train none has at most"):
        handed(sft, tmp_path, {"train": ["x" * 3000], "valid": []})
