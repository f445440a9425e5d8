"""The policy that PPO trains: a causal language model with a value head.

Both share one trunk, so that one forward pass gives the log-probability of
each response token and the value of the state before it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.errors import ModelError
from stylerl.lm.adapters import Adapters
from stylerl.lm.logprobs import token_scores
from stylerl.lm.packing import Group, Pack, pack, response_states
from stylerl.lm.precision import exact_products
from stylerl.lm.saving import save_model


class ResponseScores(NamedTuple):
    """Per response token of a batch, laid end to end, (N,) fp32 each."""

    logprobs: Tensor  # nats
    entropy: Tensor  # nats, of the whole distribution
    values: Tensor  # of the state before the token


class PolicyWithValue(nn.Module):
    """A causal language model and, where there is one, its value head.

    Notation: B sequences, T tokens, H hidden size, V vocabulary.  The value
    head starts at zero, so that every value is 0 before the first step;
    without a head every value stays 0.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        value: bool = True,
    ) -> None:
        """Wrap `model`; `value` says whether there is a head.

        Raises:
            ModelError: the logits are not linear in the last hidden state,
                or a packed pass gives others than a plain one.
        """
        super().__init__()
        self.model = model
        self.adapters: Adapters | None = None
        model.eval()
        self.value_head: nn.Linear | None = None
        if value:
            settings = model.config.get_text_config()
            self.value_head = nn.Linear(settings.hidden_size, 1)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
            self.value_head.to(model.device)
        self._check_logits()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    def forward(self, packed: Pack, temperature: float) -> ResponseScores:
        """Score the response tokens of a pass, M of them.

        Log-probabilities are taken at `temperature`.
        """
        hidden = response_states(self.model, packed)
        scores = token_scores(self.model, hidden, packed.tokens, temperature)
        return ResponseScores(*scores, self.values(hidden))

    def values(self, hidden: Tensor) -> Tensor:
        """State values in fp32, (..., H) -> (...)."""
        if self.value_head is None:
            return hidden.new_zeros(hidden.shape[:-1], dtype=torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            values: Tensor = self.value_head(hidden.float())
        return values.squeeze(-1)

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
        """The trained weights: every weight once, or adapters and head."""
        return {
            name: weight.detach()
            for name, weight in self.named_parameters()
            if weight.requires_grad
        }

    def save(self, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """Write a stock model folder: adapters merged, no value head.

        The critic belongs to the training; a checkpoint has it.
        """
        save_model(self.model, tokenizer, folder)

    def _check_logits(self) -> None:
        """Some families scale or cap their logits after the embedding, or
        have an attention that a packed pass does not know."""
        ids = torch.arange(8, device=self.device)
        packed = pack([Group([0, 1], [ids[2:].tolist()] * 2)])
        with torch.inference_mode(), exact_products():
            theirs = self.model(input_ids=ids[None]).logits[0, 1:-1]
            states = response_states(self.model, packed.to(self.device))
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
