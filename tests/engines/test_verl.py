"""veRL itself, as far as it goes without a GPU; `make test-engines`."""

import asyncio
import os
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import build_llama, build_tokenizer
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.dataset.rl_dataset import RLHFDataset

from stylerl.config import Params
from stylerl.engines import handover, token_level, verl_loop
from stylerl.judge.place import File, Place
from stylerl.lm.saving import save_model

PROMPT = "def add(a, b):\n"
FUNCTION = f"{PROMPT}    return a + b\n"
SOURCE = f"import os\n\n\n{FUNCTION}"


@pytest.fixture
def folder(tmp_path):
    """What `stylerl handover` writes, of a tiny model."""
    tokenizer = build_tokenizer()
    model = build_llama(len(tokenizer))
    model.config.context = 64
    save_model(model, tokenizer, tmp_path / "sft")
    place = Place(File(SOURCE.split("\n"), "add.py"), 4, FUNCTION, PROMPT)
    prompts = {"train": [PROMPT, "def sub(a, b):\n"], "valid": [PROMPT]}
    handover.write(
        tmp_path / "out", tmp_path / "sft", Params(), prompts, {PROMPT: place}
    )
    return tmp_path / "out"


def loop_that_writes(text, monkeypatch, folder):
    """The agent loop, before a server that always answers the same."""
    monkeypatch.setenv(token_level.PARAMS, str(folder / "params.yaml"))
    tokenizer = build_tokenizer()
    ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    asked = []

    async def generate(**request):
        asked.append(request)
        return SimpleNamespace(
            token_ids=ids,
            log_probs=[-1.0] * len(ids),
            extra_fields={"min_global_steps": 3, "max_global_steps": 3},
        )

    loop = object.__new__(verl_loop.StyleLoop)
    loop.tokenizer = tokenizer
    loop.server_manager = SimpleNamespace(generate=generate)
    loop.rollout_config = SimpleNamespace(response_length=64)
    return loop, tokenizer, ids, asked


def test_a_violations_token_is_charged_where_verl_reads_it(
    folder, monkeypatch
):
    """`a+ b` is one E225, at the `+`, and its line's only one: its score is
    0.9 and style 0.45, of which the weight 2.5 makes 1.125.  The 1.375 that
    are missed are charged there four times; the last token gets the rest,
    1.125 + 1.375, and 1 for both arguments, which are read."""
    text = "    return a+ b\n"
    loop, tokenizer, ids, asked = loop_that_writes(text, monkeypatch, folder)
    row = {"raw_prompt": [{"content": "import os\n"}, {"content": PROMPT}]}
    output = asyncio.run(loop.run({}, **row)).as_dict()
    given = tokenizer.decode(asked[0]["prompt_ids"])
    assert given.endswith(f"import os\n{PROMPT}")
    assert output["extra_fields"]["min_global_steps"] == 3
    assert len(output["rollout_log_probs"]) == len(ids)
    scores = output["rm_scores"]
    charged = scores.nonzero().flatten().tolist()
    assert "+" in tokenizer.decode(ids[charged[0] : charged[0] + 1])
    assert charged[1:] == [len(ids) - 1]
    assert scores[charged].tolist() == pytest.approx([-5.5, 3.5])


def test_what_stands_in_its_file_is_judged_there(folder, monkeypatch):
    """`os` is known there, and unknown alone."""
    text = "    return os.sep\n"
    loop, *_ = loop_that_writes(text, monkeypatch, folder)
    raw = [{"content": ""}, {"content": PROMPT}]
    info = {"file_text": SOURCE, "line": 4, "file_path": "add.py"}
    there = asyncio.run(loop.run({}, raw_prompt=raw, extra_info=info))
    alone = asyncio.run(loop.run({}, raw_prompt=raw))
    assert there.reward_score == pytest.approx(2.5)
    assert alone.reward_score < 1


def test_verls_advantages_keep_the_place():
    """Two answers of one prompt.  Returns to go, with lambda 1/2, of rewards
    (-1, 0, 2): the last token's 2 reaches all, the charge -1 the first alone:
    (1, 2, 2).  Of (0, 1): (1, 1), and at the third token its outcome, 1.
    Each less the other: (0, 1, 1) and (0, -1), of one size by their
    deviation: sqrt((.2^2 + .8^2 + .8^2 + .2^2 + 1.2^2) / 4) = sqrt(.7)."""
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    rewards = torch.tensor([[-1.0, 0, 2], [0, 1, 0]])
    data = DataProto.from_dict(
        {"token_level_rewards": rewards, "response_mask": mask},
        {"uid": np.array(["one", "one"], dtype=object)},
    )
    settings = SimpleNamespace(lam=0.5)
    found = compute_advantage(data, "stylerl", config=settings).batch
    assert found["returns"].tolist() == [[1, 2, 2], [1, 1, 0]]
    expected = torch.tensor([[0.0, 1, 1], [0, -1, 0]])
    torch.testing.assert_close(found["advantages"], expected / 0.7**0.5)


def test_a_server_that_gives_up_gives_nothing(folder, monkeypatch):
    loop, _, ids, _ = loop_that_writes("", monkeypatch, folder)
    ids.clear()
    output = asyncio.run(loop.run({}, raw_prompt=[{"content": PROMPT}]))
    assert output.as_dict()["rm_scores"].shape == (0,)


def test_verl_reads_what_is_handed_over(folder):
    """Its own data set class, and its own configuration with our line."""
    line = (folder / "launch.sh").read_text().replace("\\\n", "")
    words = shlex.split(line, comments=True)
    overrides = words[words.index("verl.trainer.main_ppo") + 1 :]
    assert f"STYLERL_PARAMS={folder / 'params.yaml'}" in words
    with initialize_config_module("verl.trainer.config", version_base=None):
        settings = compose("ppo_trainer", overrides=overrides)
    assert settings.algorithm.adv_estimator == "stylerl"
    told = settings.ray_kwargs.ray_init.runtime_env.env_vars
    assert str(folder / "params.yaml") == told.STYLERL_PARAMS
    rows = RLHFDataset(
        settings.data.train_files, build_tokenizer(), settings.data
    )
    assert len(rows) == 2
    context, prompt = (each["content"] for each in rows[0]["raw_prompt"])
    assert (context, prompt) == ("import os\n\n\n", PROMPT)
    assert rows[0]["extra_info"]["line"] == 4
    assert pd.read_parquet(settings.data.val_files).shape[0] == 1
    loops = settings.actor_rollout_ref.rollout.agent
    assert os.path.exists(loops.agent_loop_config_path)
