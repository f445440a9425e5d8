"""A folder that veRL starts from: prompts, parameters, configuration.

Written into one folder: the prompts of PPO and of its validation as parquet,
params.yaml, the agent loop's configuration, and the launch line.  The judge's
configuration stays where it is, since it may name what stands beside it.
"""

import math
import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from stylerl import config, storage
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError
from stylerl.judge.place import Place
from stylerl.lm import encoding, models
from stylerl.lm.adapters import SCALE
from stylerl.lm.context import nearest_lines
from stylerl.reward.other_trainers import Origin

LOOP = "stylerl.engines.verl_loop"
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
        ConfigError: PPO is to learn a value, which veRL does by a critic of
            its own.
        DataError: a split has no prompt that fits.
        ModelError: there is no such model.
        DiskError: the folder cannot be written.
    """
    if params.ppo.baseline == "value":
        raise ConfigError(
            "ppo.baseline must be group where veRL trains: its estimator "
            "here compares a group; got value"
        )
    model, out = model.resolve(), out.resolve()
    tokenizer = encoding.load_tokenizer(str(model))
    budget = int(storage.read_json(model / "config.json").get("context", 0))
    room = models.positions(str(model)) or math.inf
    room -= params.ppo.max_new_tokens
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
    storage.write_text(out / "launch.sh", line + "\n")
    return line


def launch_line(out: Path, model: Path, params: Params, longest: int) -> str:
    """How veRL is started with this folder; `longest` prompt, in tokens."""
    ppo, actor = params.ppo, "actor_rollout_ref.actor"
    rollout = "actor_rollout_ref.rollout"
    groups = max(1, ppo.batch_size // ppo.group_size)
    variables = {
        "VERL_USE_EXTERNAL_MODULES": LOOP,
        "STYLERL_PARAMS": out / "params.yaml",
    }
    to_workers = "+ray_kwargs.ray_init.runtime_env.env_vars"
    settings = {
        **{f"{to_workers}.{key}": value for key, value in variables.items()},
        "data.train_files": out / FILES["train"],
        "data.val_files": out / FILES["valid"],
        "data.filter_overlong_prompts": False,  # by a chat template
        "data.max_prompt_length": longest,
        "data.max_response_length": ppo.max_new_tokens,
        "data.train_batch_size": groups,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.model.lora_rank": ppo.lora_rank,
        "actor_rollout_ref.model.lora_alpha": round(SCALE * ppo.lora_rank),
        f"{actor}.optim.lr": ppo.learning_rate,
        f"{actor}.optim.weight_decay": 0,
        f"{actor}.ppo_epochs": ppo.update_epochs,
        f"{actor}.ppo_mini_batch_size": max(1, groups // ppo.num_minibatches),
        f"{actor}.ppo_micro_batch_size_per_gpu": 8,
        f"{actor}.clip_ratio": ppo.clip_coef,
        f"{actor}.entropy_coeff": 0,
        f"{actor}.use_kl_loss": True,
        f"{actor}.kl_loss_coef": ppo.kl_coef,
        f"{rollout}.name": "vllm",
        f"{rollout}.load_format": "safetensors",  # which LoRA needs
        f"{rollout}.n": ppo.group_size,
        f"{rollout}.temperature": ppo.temperature,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 8,
        f"{rollout}.agent.default_agent_loop": "stylerl",
        f"{rollout}.agent.agent_loop_config_path": out / "loop.yaml",
        "algorithm.adv_estimator": "stylerl",
        "algorithm.lam": ppo.gae_lambda,
        "trainer.logger": "[console]",
        "trainer.n_gpus_per_node": 1,
        "trainer.total_epochs": ppo.updates,  # more than are needed
        "trainer.total_training_steps": ppo.updates,
        "trainer.save_freq": ppo.updates,
        "trainer.test_freq": VALIDATE_EVERY,
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    named = [f"{key}={value}" for key, value in variables.items()]
    return shlex.join(
        ["env", *named, "python", "-m", "verl.trainer.main_ppo", *words]
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
