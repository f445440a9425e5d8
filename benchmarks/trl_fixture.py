"""What TRL 1.12's PPOTrainer computes on given tensors, as a test fixture.

    python benchmarks/trl_fixture.py        # in an environment with trl 1.12

It runs TRL's own lines: the parts of `PPOTrainer.train` between "compute
rewards" and the first epoch, and those of one micro-batch's loss, taken from
the installed package.  Nothing of them is kept here.
tests/integration/test_trl.py compares our functions with what was written to
tests/data/trl_1_12.json.
"""

import inspect
import json
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import trl
from trl.experimental.ppo import ppo_trainer

OUT = Path(__file__).parent.parent / "tests" / "data" / "trl_1_12.json"
SETTINGS = {
    "kl_coef": 0.1,
    "kl_estimator": "k1",
    "gamma": 0.97,
    "lam": 0.9,
    "cliprange": 0.2,
    "cliprange_value": 0.15,
    "vf_coef": 0.1,
    "whiten_rewards": False,
}
LAST = {"full": [4, 4, 4], "padded": [4, 2, 0]}  # index of the last action


def lines_of(method: Any, first: str, last: str) -> str:
    """The source between two markers, without its indentation."""
    source = inspect.getsource(method).splitlines(keepends=True)
    start = next(i for i, line in enumerate(source) if first in line)
    end = next(
        i for i, line in enumerate(source) if i > start and last in line
    )
    return textwrap.dedent("".join(source[start:end]))


def inputs(last: list[int]) -> dict[str, torch.Tensor]:
    """Random tensors of three responses of at most five tokens."""
    source = torch.Generator().manual_seed(0)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=source)

    return {
        "logprobs": -draw(3, 5).abs(),
        "ref_logprobs": -draw(3, 5).abs(),
        "values": draw(3, 5),
        "scores": draw(3),
        "new_logprobs": -draw(3, 5).abs(),
        "vpred": draw(3, 5),
        "sequence_lengths": torch.tensor(last),
    }


def trl_result(name: str) -> dict[str, Any]:
    """Run TRL's lines on one set of inputs."""
    given = inputs(LAST[name])
    space: dict[str, Any] = {
        **vars(ppo_trainer),
        **{key: value.clone() for key, value in given.items()},
        "args": SimpleNamespace(**SETTINGS),
        "responses": torch.zeros(3, 5),
        "empty_cache": lambda: None,
        "accelerator": SimpleNamespace(backward=lambda loss: None),
    }
    train = ppo_trainer.PPOTrainer.train
    exec(
        lines_of(train, "response_idxs = torch.arange", "# Do multiple"), space
    )
    space |= {
        "mb_advantage": space["advantages"],
        "mb_logprobs": space["logprobs"],
        "mb_return": space["returns"],
        "mb_values": space["values"],
        "micro_batch_inds": torch.arange(3),
    }
    mask = "new_logprobs = torch.masked_fill("
    exec(lines_of(train, mask, "vpred = vpred_temp"), space)
    exec(lines_of(train, "vpred = torch.masked_fill", "accelerator.b"), space)
    outputs = ("kl", "rewards", "advantages", "pg_loss")
    return {
        "inputs": {key: value.tolist() for key, value in given.items()},
        "outputs": {key: space[key].tolist() for key in outputs},
    }


def main() -> None:
    """Write the fixture."""
    if not trl.__version__.startswith("1.12."):
        raise SystemExit(f"this needs trl 1.12; found {trl.__version__}")
    fixture = {
        "command": "python benchmarks/trl_fixture.py",
        "trl": trl.__version__,
        "torch": torch.__version__,
        "settings": SETTINGS,
        "cases": {name: trl_result(name) for name in LAST},
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(fixture, indent=1) + "\n")


if __name__ == "__main__":
    main()
