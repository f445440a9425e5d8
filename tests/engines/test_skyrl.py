"""SkyRL itself, as far as it goes without a GPU; `make test-engines`."""

import asyncio
import shlex
import sys
import typing
from pathlib import Path

import pytest
import torch
import typing_extensions
from conftest import build_tokenizer

if sys.version_info < (3, 12):  # what pydantic asks of SkyRL's types there
    typing.TypedDict = typing_extensions.TypedDict

from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.generators.utils import prepare_generator_input
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.trainer_utils import validate_generator_output

from stylerl import config
from stylerl.config import Params
from stylerl.engines import skyrl_generator, token_level

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "def add(a, b):\n"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What SkyRL's trainer asks of a generator: two samples of a prompt."""
    file = tmp_path / "params.yaml"
    file.write_text(config.render(Params()))
    monkeypatch.setenv(token_level.PARAMS, str(file))
    messages = [{"role": "user", "content": PROMPT}]
    row = {"prompt": messages, "env_class": None, "uid": "0"}
    row["env_extras"] = {"extra_info": {"file_text": None}}
    batch, uids = prepare_generator_input([row], 2, {}, "none", "train", 1)
    assert uids == ["0", "0"]
    return batch


def generator_of(*texts):
    """The generator before a server that writes these texts."""
    tokenizer = build_tokenizer()
    end = tokenizer.eos_token_id
    ids = [[*tokenizer(text)["input_ids"], end] for text in texts]

    class Client:
        async def generate(self, batch):
            assert len(batch["prompt_token_ids"]) == len(ids)
            return {
                "response_ids": ids,
                "stop_reasons": ["stop"] * len(ids),
                "response_logprobs": [[-1.0] * len(own) for own in ids],
            }

    return skyrl_generator.StyleGenerator(tokenizer, Client()), ids


def test_a_violations_token_is_charged_where_skyrl_reads_it(asked):
    """`a+ b`: -5.5 at the `+` and 3.5 at the end, as under veRL; `a + b` has
    3.5 at its end alone.  SkyRL's own checks let them pass, and its trainer
    keeps rewards that are a token's."""
    texts = ("    return a+ b\n", "    return a + b\n")
    generator, ids = generator_of(*texts)
    output = asyncio.run(generator.generate(asked))
    validate_generator_output(2, output)
    trainer = object.__new__(RayPPOTrainer)
    trainer.cfg, trainer.all_metrics = SkyRLTrainConfig(), {}
    kept, _ = trainer.postprocess_generator_output(output, ["0", "0"])
    first, second = map(torch.tensor, kept["rewards"])
    (plus, last) = first.nonzero().flatten().tolist()
    assert "+" in generator.tokenizer.decode(ids[0][plus : plus + 1])
    assert last == len(ids[0]) - 1
    assert first[[plus, last]].tolist() == pytest.approx([-5.5, 3.5])
    assert second.nonzero().flatten().tolist() == [len(ids[1]) - 1]


def test_the_documented_configuration_is_one():
    page = (ROOT / "docs/howto/trainers.md").read_text()
    start = page.index("stylerl.engines.skyrl_generator \\")
    block = page[start : page.index("```", start)].replace("\\\n", " ")
    settings = SkyRLTrainConfig.from_cli_overrides(shlex.split(block)[1:])
    validate_cfg(settings)
    assert settings.trainer.algorithm.advantage_estimator == "stylerl"
    assert settings.generator.n_samples_per_prompt == Params().ppo.group_size


def test_skyrls_advantages_keep_the_place():
    """The numbers of test_verl.py, by SkyRL's own call."""
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    rewards = torch.tensor([[-1.0, 0, 2], [0, 1, 0]])
    ahead, returns = ppo_utils.compute_advantages_and_returns(
        token_level_rewards=rewards,
        response_mask=mask,
        index=["one", "one"],
        adv_estimator="stylerl",
        config=SkyRLTrainConfig().trainer.algorithm,
        lambd=0.5,
    )
    assert returns.tolist() == [[1, 2, 2], [1, 1, 0]]
    expected = torch.tensor([[0.0, 1, 1], [0, -1, 0]])
    torch.testing.assert_close(ahead, expected / 0.7**0.5)
