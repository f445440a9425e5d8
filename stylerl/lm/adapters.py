"""LoRA: a frozen model with small trained adapters, through peft.

Hu et al., arXiv 2106.09685, eq. 3: a linear layer's W x becomes
W x + (alpha / rank) B A x, with A (rank, in) drawn at random, B (out, rank)
zero, and W frozen.  Adapters are put into the model's own layers, so it stays
a stock model to whoever calls it; with the adapters off it is the model that
it was, and PPO needs no second one as its reference.
"""

import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from stylerl.errors import ConfigError, require

ALL = "all-linear"  # peft's word for all but the output embedding


class Adapters:
    """The adapters of one model."""

    def __init__(
        self,
        model: PreTrainedModel,
        rank: int,
        alpha: float,
        targets: Sequence[str],
        seed: int,
    ) -> None:
        """Freeze `model` and put adapters into it, in place.

        `targets` are the last parts of layers' names, such as `q_proj`, or
        `all-linear`; A is drawn from `seed`.

        Raises:
            ConfigError: the model has no such layer.
            MissingExtra: peft is not installed.
        """
        self.settings = (rank, alpha, targets, seed)
        require("lora", "peft")
        from peft import LoraConfig, get_peft_model  # takes seconds

        settings = LoraConfig(
            r=rank,
            lora_alpha=alpha,  # type: ignore[arg-type]
            target_modules=ALL if ALL in targets else list(targets),
            task_type="CAUSAL_LM",
        )
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's, of names it corrects
            torch.manual_seed(seed)
            try:
                self._peft: Any = get_peft_model(model, settings)
            except ValueError as error:
                raise ConfigError(
                    "ppo.lora_targets must name linear layers of "
                    f"{type(model).__name__}; got {', '.join(targets)}: take "
                    f"{ALL}, or some of {', '.join(_last_parts(model))}"
                ) from error

    def off(self) -> AbstractContextManager[None]:
        """Inside the block the model is the one without adapters."""
        found: AbstractContextManager[None] = self._peft.disable_adapter()
        return found

    def merged(self) -> PreTrainedModel:
        """A stock model whose weights are W + (alpha / rank) B A."""
        model: PreTrainedModel = copy.deepcopy(self._peft).merge_and_unload()
        return model


def linear_layers(model: PreTrainedModel) -> dict[str, Any]:
    """The layers that `all-linear` adapts, by name."""
    return {
        name: module
        for name, module in model.base_model.named_modules()
        if isinstance(module, (nn.Linear, Conv1D))
    }


def _last_parts(model: PreTrainedModel) -> list[str]:
    return sorted({n.rpartition(".")[2] for n in linear_layers(model)})
