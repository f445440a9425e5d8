"""What veRL starts from: SFT, prompts and the style guide, as it reads them.

Written into one folder: the prompts of PPO and of its validation as parquet,
params.yaml, the agent loop's configuration and the launch line.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from stylerl import config, storage
from stylerl.config import Params
from stylerl.judge.place import Place
from stylerl.lm import models
from stylerl.lm.adapters import SCALE
from stylerl.lm.context import nearest_lines

LOOP = "stylerl.engines.verl_loop"
FILES = {"train": "train.parquet", "valid": "valid.parquet"}


def write(
    out: Path,
    model: Path,
    params: Params,
    prompts: Mapping[str, Sequence[str]],
    places: Mapping[str, Place],
) -> str:
    """Write the folder; the launch line.

    Args:
        out: the folder.
        model: the policy's, artifacts/sft.
        params: what PPO would run with.
        prompts: by split, train and valid.
        places: of the prompts.

    Raises:
        ModelError: there is no such model.
        DiskError: the folder cannot be written.
    """
    model, out = model.resolve(), out.resolve()
    tokenizer = models.load_tokenizer(str(model))
    budget = int(storage.read_json(model / "config.json").get("context", 0))
    rows = {
        split: [
            _row(text, places.get(text), tokenizer, budget) for text in own
        ]
        for split, own in prompts.items()
    }
    for split, name in FILES.items():
        storage.write_table(out / name, pd.DataFrame(rows[split]))
    storage.write_text(out / "params.yaml", config.render(params))
    loop = [{"name": "stylerl", "_target_": f"{LOOP}.StyleLoop"}]
    storage.write_text(out / "loop.yaml", yaml.safe_dump(loop))
    sizes = [len(_given(row, tokenizer)) for row in rows["train"]]
    line = launch_line(out, model, params, max(sizes, default=1))
    storage.write_text(out / "launch.sh", line + "\n")
    return line


def launch_line(out: Path, model: Path, params: Params, longest: int) -> str:
    """How veRL is started with this folder; `longest` prompt, in tokens."""
    ppo, actor = params.ppo, "actor_rollout_ref.actor"
    rollout = "actor_rollout_ref.rollout"
    settings = {
        "data.train_files": out / FILES["train"],
        "data.val_files": out / FILES["valid"],
        "data.filter_overlong_prompts": False,  # by a chat template
        "data.max_prompt_length": longest,
        "data.max_response_length": ppo.max_new_tokens,
        "data.train_batch_size": ppo.batch_size // ppo.group_size,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.model.lora_rank": ppo.lora_rank,
        "actor_rollout_ref.model.lora_alpha": round(SCALE * ppo.lora_rank),
        f"{actor}.optim.lr": ppo.learning_rate,
        f"{actor}.ppo_mini_batch_size": ppo.batch_size
        // ppo.group_size
        // ppo.num_minibatches,
        f"{actor}.ppo_micro_batch_size_per_gpu": 8,
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
        "trainer.n_gpus_per_node": 1,
        "trainer.total_training_steps": ppo.updates,
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    variables = f"VERL_USE_EXTERNAL_MODULES={LOOP} STYLERL_PARAMS=" + (
        shlex.quote(str(out / "params.yaml"))
    )
    return f"{variables} python -m verl.trainer.main_ppo {shlex.join(words)}"


def _row(
    prompt: str, place: Place | None, tokenizer: Any, budget: int
) -> dict[str, Any]:
    """A prompt as veRL's data set has it."""
    context, columns = "", {}
    if place is not None:
        ids = nearest_lines(tokenizer, place.above, budget)
        context = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        columns = {
            "file_text": "\n".join(place.file.lines),
            "line": place.row,
            "file_path": place.file.path,
        }
    return {
        "data_source": "stylerl",
        "prompt": [
            {"role": "system", "content": context},
            {"role": "user", "content": prompt},
        ],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": columns,
    }


def _given(row: Mapping[str, Any], tokenizer: Any) -> list[int]:
    """A row's prompt in tokens, with its context."""
    context, prompt = (each["content"] for each in row["prompt"])
    above = models.encode_code(tokenizer, context)
    return models.encode_prompt(tokenizer, prompt, above)
