"""Shared by our supervised trainers: adapters, settings, progress bar.

SFT and both reward models run on transformers' Trainer (TRL's are subclasses
of it).  Here are the adapters they train and the settings they have in
common, and a callback that shows progress and logs the metrics.
"""

import math
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import huggingface_hub.constants
import torch
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
)

from stylerl.config import RewardConfig, SFTConfig
from stylerl.errors import TrainingError
from stylerl.lm.adapters import Adapters
from stylerl.lm.memory import give_back
from stylerl.lm.models import cast_weights
from stylerl.lm.precision import multiplies_bf16

Log = Callable[[Mapping[str, float], int], None]  # metrics and their step
LOG_STEPS = 5
WARMUP = 0.05  # share of the steps
EPOCHS = 1.0  # of reward models; SFT's are a setting
# Texts a pass on a CPU: memory goes to its activations, rows of like length
# in small parts are padded less, and for SFT fewer took no longer (peak 5.7
# GiB with 8, 4.0 with 4, 2.8 with 2; 113, 114 and 91 s).
PART = 2


def adapt(model: PreTrainedModel, rank: int, seed: int) -> Adapters:
    """Put adapters into a model, whose weights become bf16 where that pays."""
    if multiplies_bf16():
        cast_weights(model, torch.bfloat16)
    return Adapters(model, rank, seed)


def training_arguments(
    config: SFTConfig | RewardConfig, seed: int, texts: int = 1
) -> dict[str, Any]:
    """TrainingArguments shared by all: nothing saved or sent.

    bf16 autocast where that is faster, batches of similar
    length, AdamW with a linear warm-up and decay.  A row has `texts` texts;
    on a CPU a step's batch is computed in equal parts.
    """
    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    cuda = torch.cuda.is_available()
    size = config.batch_size
    part = size if cuda else math.gcd(size, PART // texts)
    return {
        "output_dir": tempfile.gettempdir(),  # where nothing is written
        "per_device_train_batch_size": part,
        "gradient_accumulation_steps": size // part,
        "num_train_epochs": EPOCHS,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": WARMUP,
        "train_sampling_strategy": "group_by_length",
        "gradient_checkpointing": None,
        "bf16": multiplies_bf16(),
        "use_cpu": not cuda,
        "dataloader_pin_memory": cuda,
        "seed": seed,
        "logging_steps": LOG_STEPS,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def train_with_progress(
    trainer: Trainer,
    stage: str,
    log: Log | None = None,
    adapters: Adapters | None = None,
) -> float:
    """Train to the end under a progress bar; the mean loss of all steps.

    `adapters` are those of the model, if that is what is trained.

    Afterwards the model computes in its own precision again: accelerate
    leaves its autocast around `forward` otherwise.

    Raises:
        TrainingError: the loss is not finite.
    """
    give_back()
    model: Any = trainer.model
    if not torch.cuda.is_available():  # a quarter faster on short texts
        model.set_attn_implementation("eager")
    trainer.remove_callback(PrinterCallback)
    if adapters is not None:
        trainer.add_callback(MergeAdapters(adapters))
    progress: Any = _Progress(stage, log)
    trainer.add_callback(progress)
    try:
        loss = float(trainer.train().training_loss)
    finally:
        if progress.training_bar:
            progress.training_bar.close()
    _check_finite(loss, stage, trainer.state.global_step)
    trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    return loss


class MergeAdapters(TrainerCallback):
    """Lets the model compute with what its adapters have learnt."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        """After each step."""
        self.adapters.merge()


def _check_finite(loss: float, stage: str, step: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"{stage}: the loss must stay finite; it is {loss} at step "
            f"{step}: lower {stage}.learning_rate"
        )


class _Progress(ProgressCallback):
    """Moves the stage's bar; stops a run whose loss is not finite."""

    def __init__(self, stage: str, log: Log | None) -> None:
        super().__init__()
        self.stage, self.log = stage, log

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any
    ) -> None:
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        _check_finite(loss, self.stage, state.global_step)
        bar: Any = self.training_bar
        bar.set_description(self.stage, refresh=False)
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        if self.log:
            shown = ("loss", "learning_rate", "grad_norm", "accuracy")
            metrics = {k: float(logs[k]) for k in shown if k in logs}
            self.log(metrics, state.global_step)
