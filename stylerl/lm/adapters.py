"""LoRA: a frozen model with small trained adapters.

Hu et al., arXiv 2106.09685, eq. 3: a linear layer's W x becomes
W x + (alpha / rank) B A x, with A (rank, in) drawn at random, B (out, rank)
zero, and W frozen.

Here the sum W + (alpha / rank) B A is formed once an optimiser step, in the
type of W, and every pass multiplies by it: sampling, scoring, training and
the saved model share one set of weights to the bit, and a pass costs what
the plain model's does.  With the adapters off it is the model that it was,
and PPO needs no second one as its reference.

bf16 keeps eight bits of a weight, and an update that moves it by less than
half a step would round away: at first 80% of B A does.  So the sum is rounded
up as often as it lies near the next step, by noise that never changes
(stochastic rounding, Zamirai et al., arXiv 2010.06192): on average over the
weights B A arrives whole, and where it is zero W stays W.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from stylerl.errors import ConfigError

ALL = "all-linear"  # every linear layer but the model's output


class _Product(torch.autograd.Function):
    """x W'^T with W' = W + scale B A, and the gradients of A and B."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, merged: Tensor, a: Tensor, b: Tensor, scale: float
    ) -> Tensor:
        """(..., in), (out, in), (rank, in), (out, rank) -> (..., out)."""
        ctx.save_for_backward(x, merged, a, b)
        ctx.scale = scale
        return x @ merged.T

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        """From dL/dy: dL/dA = scale B^T dy^T x, dL/dB = scale dy^T x A^T."""
        x, merged, a, b = ctx.saved_tensors
        dy, flat = grad.flatten(0, -2), x.flatten(0, -2)
        grad_a = (dy @ b.to(dy.dtype)).T @ flat
        grad_b = dy.T @ (flat @ a.to(flat.dtype).T)
        scale = ctx.scale
        return (
            grad @ merged,
            None,
            grad_a.float() * scale,
            grad_b.float() * scale,
            None,
        )


class LoRA(nn.Module):
    """A linear layer with an adapter; `weight` is the merged one."""

    frozen: Tensor

    def __init__(
        self,
        layer: Any,
        rank: int,
        alpha: float,
        generator: torch.Generator,
    ) -> None:
        """Adapt a Linear or a Conv1D, whose weight is (in, out)."""
        super().__init__()
        self.transposed = isinstance(layer, Conv1D)
        self.scale, self.enabled = alpha / rank, True
        self.weight = nn.Parameter(layer.weight.detach(), False)
        self.bias = layer.bias
        frozen = layer.weight.detach().clone()
        self.register_buffer("frozen", frozen, persistent=False)
        out, into = self._matrix(frozen).shape
        # U(-1/sqrt(in), 1/sqrt(in)), as torch draws a linear layer.
        bound = 1 / math.sqrt(into)
        drawn = torch.empty(rank, into).uniform_(
            -bound, bound, generator=generator
        )
        self.lora_a = nn.Parameter(drawn.to(frozen.device))
        self.lora_b = nn.Parameter(torch.zeros(out, rank).to(frozen.device))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if self.enabled:
            y: Tensor = _Product.apply(
                x,
                self._matrix(self.weight),
                self.lora_a,
                self.lora_b,
                self.scale,
            )
        else:
            y = x @ self._matrix(self.frozen).T
        return y if self.bias is None else y + self.bias

    @torch.no_grad()
    def merge(self) -> None:
        """Form the merged weight from what was trained."""
        moved = self.scale * self.lora_b @ self.lora_a
        total = self._matrix(self.frozen).float() + moved
        if self.weight.dtype == torch.bfloat16:
            total = rounded(total)
        self._matrix(self.weight).copy_(total)

    def _matrix(self, weight: Tensor) -> Tensor:
        """A layer's weight as (out, in)."""
        return weight.T if self.transposed else weight


def rounded(x: Tensor) -> Tensor:
    """(rows, columns) fp32 -> the same in steps of bf16, still as fp32.

    A bf16 number is the upper half of an fp32 one: what noise of the lower
    half's size carries over is rounded up, the rest down.
    """
    bits = x.contiguous().view(torch.int32) + _noise(x.shape, x.device)
    return (bits & -(1 << 16)).view(torch.float32)


@cache
def _noise(shape: torch.Size, device: torch.device) -> Tensor:
    """Of 16 bits, the same in every run."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(1 << 16, shape, generator=generator)
    return drawn.to(device, torch.int32)


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
        """
        self.settings = (rank, alpha, targets, seed)
        model.requires_grad_(False)
        generator = torch.Generator().manual_seed(seed)
        self.layers: list[LoRA] = []
        for name, layer in linear_layers(model).items():
            parent, _, last = name.rpartition(".")
            if ALL in targets or last in targets:
                adapted = LoRA(layer, rank, alpha, generator)
                setattr(model.get_submodule(parent), last, adapted)
                self.layers.append(adapted)
        if not self.layers:
            raise ConfigError(
                "ppo.lora_targets must name linear layers of "
                f"{type(model).__name__}; got {', '.join(targets)}: take "
                f"{ALL}, or some of {', '.join(_last_parts(model))}"
            )

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside the block the model is the one without adapters."""
        self._switch(False)
        try:
            yield
        finally:
            self._switch(True)

    def _switch(self, enabled: bool) -> None:
        for layer in self.layers:
            layer.enabled = enabled

    def merge(self) -> None:
        """Let the model compute with what its adapters have learnt."""
        for layer in self.layers:
            layer.merge()


def linear_layers(model: PreTrainedModel) -> dict[str, Any]:
    """The layers that `all-linear` adapts, by name.

    Not the output: neither the embedding, nor a reward model's one number.
    """
    output = model.get_output_embeddings()
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, Conv1D))
        and module is not output
        and getattr(module, "out_features", 0) != 1
    }


def _last_parts(model: PreTrainedModel) -> list[str]:
    return sorted({n.rpartition(".")[2] for n in linear_layers(model)})
