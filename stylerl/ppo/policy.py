"""The policy that PPO trains: a causal language model."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from stylerl.errors import ModelError
from stylerl.lm.adapters import Adapters
from stylerl.lm.packing import Group, pack, response_states
from stylerl.lm.precision import exact_products


class Policy(nn.Module):
    """A causal language model, with adapters if they are what is trained."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Wrap `model`.

        Raises:
            ModelError: the logits are not linear in the last hidden state,
                or a packed pass gives others than a plain one.
        """
        super().__init__()
        self.model = model
        self.adapters: Adapters | None = None
        model.eval()
        self._check_logits()

    def add_adapters(self, rank: int, seed: int) -> None:
        """Freeze the model, and train LoRA adapters instead.

        The frozen weights keep the type that they have.

        Raises:
            ModelError: the model has no layer to adapt.
        """
        self.adapters = Adapters(self.model, rank, seed)

    def merge(self) -> None:
        """Let the model compute with what its adapters have learnt."""
        if self.adapters:
            self.adapters.merge()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights that `trained` returned."""
        self.load_state_dict(dict(weights), strict=False)
        self.merge()

    def adapters_off(self) -> AbstractContextManager[None]:
        """Inside the block the model computes without its adapters."""
        return self.adapters.off() if self.adapters else nullcontext()

    def trained(self) -> dict[str, Tensor]:
        """The trained weights: every weight once, or adapters."""
        return {
            name: weight.detach()
            for name, weight in self.named_parameters()
            if weight.requires_grad
        }

    def _check_logits(self) -> None:
        """Some families scale or cap their logits after the embedding, or
        have an attention that a packed pass does not know."""
        ids = torch.arange(8, device=self.model.device)
        packed = pack([Group([0, 1], [ids[2:].tolist()] * 2)])
        with torch.inference_mode(), exact_products():
            theirs = self.model(input_ids=ids[None]).logits[0, 1:-1]
            states = response_states(self.model, packed.to(ids.device))
            ours: Any = self.model.get_output_embeddings()(states)
        if not theirs.isfinite().all():
            raise ModelError(
                f"the logits must be finite; {type(self.model).__name__} "
                "gives others: its weights hold NaN or infinity, or overflow "
                "in their type: load it again, in fp32 or bf16"
            )
        near = 1e-4 * float(theirs.abs().max())
        for mine in ours.chunk(2):
            if not torch.allclose(mine, theirs, rtol=0.0, atol=near):
                raise ModelError(
                    "the logits must be the output embedding of the last "
                    "hidden state, of tokens that see those before them; "
                    f"{type(self.model).__name__} computes others: choose a "
                    "Llama, GPT-2 or similar model"
                )
