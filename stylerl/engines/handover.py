"""A folder that veRL starts from: prompts, parameters, configuration.

Written into one folder: the prompts of PPO and of its validation as parquet,
params.yaml, the agent loop's configuration, and the launch line.  The judge's
configuration stays where it is, since it may name what stands beside it.
"""

import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from stylerl import config, storage
from stylerl.config import Params
from stylerl.errors import DataError
from stylerl.judge.place import Place
from stylerl.lm import encoding, models
from stylerl.lm.adapters import SCALE
from stylerl.lm.context import nearest_lines
from stylerl.report import templates
from stylerl.reward.other_trainers import Origin

LOOP = "stylerl.engines.verl_loop"
LAUNCH = Path(__file__).with_name("launch.sh.j2")
FILES = {"train": "train.parquet", "valid": "valid.parquet"}
VALIDATED = 48  # prompts of the validation split that veRL answers,
VALIDATE_EVERY = 5  # as often as so many updates


def write(
    out: Path,
    model: Path,
    params: Params,
    prompts: Mapping[str, Iterable[str]],
    places: Mapping[str, Place],
) -> str:
    """Write the folder; the launch line.

    Args:
        out: the folder.
        model: the policy's, artifacts/sft.
        params: what PPO would run with.
        prompts: by split, train and valid; the first that fit are taken.
        places: of the prompts.

    Raises:
        DataError: a split has no prompt that fits.
        ModelError: there is no such model.
        DiskError: the folder cannot be written.
    """
    model, out = model.resolve(), out.resolve()
    tokenizer = encoding.load_tokenizer(str(model))
    budget = int(storage.read_json(model / "config.json").get("context", 0))
    room = models.positions(str(model)) - params.ppo.max_new_tokens
    counts = {"train": params.ppo.prompts, "valid": VALIDATED}
    longest = 0
    with storage.writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for split, name in FILES.items():
        every = (
            _row(text, places.get(text), tokenizer, budget)
            for text in prompts[split]
        )
        fit = (row for row in every if _size(row, tokenizer) <= room)
        rows = [*islice(fit, counts[split])]
        if not rows:
            raise DataError(
                f"veRL needs prompts to learn from and to validate on; of "
                f"{split} none has at most {room} tokens: raise "
                "label.snippets or lower ppo.max_new_tokens"
            )
        storage.write_table(out / name, pd.DataFrame(rows))
        longest = max(longest, *(_size(row, tokenizer) for row in rows))
    if guide := params.judge.config:
        there = {"judge.config": str(Path(guide).absolute())}
        params = config.override(params, there)
    storage.write_text(out / "params.yaml", config.render(params))
    loop = [{"name": "stylerl", "_target_": f"{LOOP}.StyleLoop"}]
    storage.write_text(out / "loop.yaml", yaml.safe_dump(loop))
    line = launch_line(out, model, params, longest)
    storage.write_text(out / "launch.sh", line)
    return line


def launch_line(out: Path, model: Path, params: Params, longest: int) -> str:
    """How veRL is started with this folder; `longest` prompt, in tokens."""
    ppo = params.ppo
    groups = ppo.batch_size // ppo.group_size
    paths = {
        "params": out / "params.yaml",
        "agent": out / "loop.yaml",
        "model": model,
        **{split: out / name for split, name in FILES.items()},
    }
    return templates.load(LAUNCH).render(
        {name: shlex.quote(str(path)) for name, path in paths.items()},
        loop=LOOP,
        ppo=ppo,
        longest=longest,
        groups=groups,
        minibatch=max(1, groups // ppo.num_minibatches),
        alpha=round(SCALE * ppo.lora_rank),
        validate_every=VALIDATE_EVERY,
    )


def _row(
    prompt: str, place: Place | None, tokenizer: Any, budget: int
) -> dict[str, Any]:
    """A prompt as veRL's data set has it."""
    context, origin = "", Origin(None, None, None)
    if place is not None:
        ids = nearest_lines(tokenizer, place.above, budget)
        context = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        text = "\n".join(place.file.lines)
        origin = Origin(text, place.row, place.file.path)
    return {
        "data_source": "stylerl",
        "prompt": [
            {"role": "system", "content": context},
            {"role": "user", "content": prompt},
        ],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": origin._asdict(),
    }


def _size(row: Mapping[str, Any], tokenizer: Any) -> int:
    """A row's prompt in tokens, with its context."""
    context, prompt = (message["content"] for message in row["prompt"])
    above = encoding.encode_code(tokenizer, context)
    return len(encoding.encode_prompt(tokenizer, prompt, above))
