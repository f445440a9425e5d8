"""LoRA: a frozen model with small trained adapters.

Hu et al., arXiv 2106.09685, eq. 3: a linear layer's W x becomes
W x + SCALE B A x, with A (rank, in) drawn at random, B (out, rank) zero, and W
frozen.

Here the sum W + SCALE B A is formed once an optimiser step, in the
type of W, and every pass multiplies by it: sampling, scoring, training and
the saved model share one set of weights to the bit, and a pass costs what
the plain model's does.  With the adapters off a layer
multiplies by W alone: that is PPO's reference, and no second model is held.

bf16 keeps eight bits of a weight, and an update that moves it by less than
half a step would round away: at first 80% of B A does.  So the sum is rounded
up as often as it lies near the next step, by noise that never changes
(stochastic rounding, Zamirai et al., arXiv 2010.06192): on average over the
weights B A arrives whole, and where it is zero W stays W.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from stylerl.errors import ModelError

SCALE = 2.0  # alpha / rank of the paper; the learning rate follows it


class _Product(torch.autograd.Function):
    """x W'^T with W' = W + SCALE B A, and the gradients of A and B."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, merged: Tensor, a: Tensor, b: Tensor
    ) -> Tensor:
        """(..., in), (out, in), (rank, in), (out, rank) -> (..., out)."""
        ctx.save_for_backward(x, merged, a, b)
        return x @ merged.T

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        """From dL/dy: dL/dA = SCALE B^T dy^T x, dL/dB = SCALE dy^T x A^T."""
        x, merged, a, b = ctx.saved_tensors
        dy, flat = grad.flatten(0, -2), x.flatten(0, -2)
        grad_a = (dy @ b.to(dy.dtype)).T @ flat
        grad_b = dy.T @ (flat @ a.to(flat.dtype).T)
        return (
            grad @ merged,
            None,
            grad_a.float() * SCALE,
            grad_b.float() * SCALE,
        )


class LoRA(nn.Module):
    """A linear layer with an adapter; `weight` is the merged one."""

    frozen: Tensor

    def __init__(
        self, layer: Any, rank: int, generator: torch.Generator
    ) -> None:
        """Adapt a Linear or a Conv1D, whose weight is (in, out)."""
        super().__init__()
        self.transposed = isinstance(layer, Conv1D)
        self.enabled = True
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
                x, self._matrix(self.weight), self.lora_a, self.lora_b
            )
        else:
            y = x @ self._matrix(self.frozen).T
        return y if self.bias is None else y + self.bias

    @torch.no_grad()
    def merge(self) -> None:
        """Form the merged weight from what was trained."""
        moved = SCALE * self.lora_b @ self.lora_a
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

    def __init__(self, model: PreTrainedModel, rank: int, seed: int) -> None:
        """Freeze `model` and adapt its linear layers, in place.

        A is drawn from `seed`.

        Raises:
            ModelError: the model has no such layer.
        """
        model.requires_grad_(False)
        generator = torch.Generator().manual_seed(seed)
        self.layers: list[LoRA] = []
        for name, layer in linear_layers(model).items():
            parent, _, last = name.rpartition(".")
            adapted = LoRA(layer, rank, generator)
            setattr(model.get_submodule(parent), last, adapted)
            self.layers.append(adapted)
        if not self.layers:
            raise ModelError(
                "LoRA needs linear layers beside the output; "
                f"{type(model).__name__} has none: set lora_rank to 0"
            )

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside the block the model computes without its adapters."""
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
    """The layers that are adapted, by name.

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
