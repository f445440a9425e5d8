"""The policy that PPO trains: a causal language model with a value head.

Both share one trunk, so that one forward pass gives the log-probability of
each response token and the value of the state before it; or the value head
has a trunk of its own, which starts as a reward model's.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.errors import ModelError
from stylerl.lm.adapters import Adapters
from stylerl.lm.logprobs import response_states, token_scores
from stylerl.lm.models import fuse_gelu, vocabulary_size, write_model
from stylerl.storage import replacing


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
        critic: PreTrainedModel | None = None,
        *,
        value: bool = True,
    ) -> None:
        """Wrap `model`, with values from its own trunk or from `critic`'s.

        `value` says whether there is a head.

        Raises:
            ModelError: the logits are not linear in the last hidden state,
                or `critic` cannot read the policy's tokens.
        """
        super().__init__()
        self.model = model
        self.adapters: Adapters | None = None
        fuse_gelu(model.eval())
        self.value_trunk: PreTrainedModel | None = None
        if critic is not None:
            fuse_gelu(critic.eval())
            _check_critic(critic, model)
            trunk: Any = critic.base_model
            self.value_trunk = trunk
        self.value_head: nn.Linear | None = None
        if value:
            settings = (critic or model).config.get_text_config()
            self.value_head = nn.Linear(settings.hidden_size, 1)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
            self.value_head.to(model.device)
        self._check_logits()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    def forward(
        self,
        input_ids: Tensor,
        prompt_lengths: Tensor,
        response_lengths: Tensor,
        temperature: float,
    ) -> ResponseScores:
        """Score the response tokens of right-padded sequences.

        `input_ids` is (B, T), prompt and response; their lengths in tokens
        are (B,) each.  Log-probabilities are taken at `temperature`.
        """
        episodes = input_ids, prompt_lengths, response_lengths
        hidden, tokens = response_states(self.model, *episodes)
        scores = token_scores(self.model, hidden, tokens, temperature)
        if self.value_trunk is not None:
            hidden, _ = response_states(self.value_trunk, *episodes)
        return ResponseScores(*scores, self.values(hidden))

    def values(self, hidden: Tensor) -> Tensor:
        """State values in fp32, (..., H) -> (...)."""
        if self.value_head is None:
            return hidden.new_zeros(hidden.shape[:-1], dtype=torch.float32)
        with torch.autocast(hidden.device.type, enabled=False):
            values: Tensor = self.value_head(hidden.float())
        return values.squeeze(-1)

    def enable_gradient_checkpointing(self) -> None:
        """Compute activations again in the backward pass.

        transformers does so in training mode alone, so every dropout is set
        to zero first; in that mode it has no KV cache, so sampling is done
        in evaluation mode.
        """
        for module in self.modules():
            for name, value in vars(module).items():
                if isinstance(value, float) and (
                    name == "p" or "drop" in name
                ):
                    setattr(module, name, 0.0)
        self.model.gradient_checkpointing_enable()
        if self.value_trunk is not None:
            self.value_trunk.gradient_checkpointing_enable()
        self.train()

    def add_adapters(
        self, rank: int, alpha: float, targets: Sequence[str], seed: int
    ) -> None:
        """Freeze the model, and train LoRA adapters instead.

        Raises:
            ConfigError: the model has no layer of `targets`.
        """
        self.adapters = Adapters(self.model, rank, alpha, targets, seed)

    def adapters_off(self) -> AbstractContextManager[None]:
        """Inside the block the model is the one that was adapted."""
        return self.adapters.off() if self.adapters else nullcontext()

    def trained(self) -> dict[str, Tensor]:
        """What training moves: every weight once, or adapters and head."""
        return {
            name: weight.detach()
            for name, weight in self.named_parameters()
            if weight.requires_grad
        }

    def unloaded(self) -> "PolicyWithValue":
        """A policy of the same shape, with weights still to be loaded."""
        model = type(self.model)(self.model.config)
        model.generation_config = self.model.generation_config
        trunk = self.value_trunk
        if trunk is not None:
            trunk = type(trunk)(trunk.config).eval()
        found = PolicyWithValue(
            model.eval(), trunk, value=self.value_head is not None
        )
        if self.adapters:
            found.add_adapters(*self.adapters.settings)
        return found

    def save(self, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """Write a stock model folder: adapters merged, no value head.

        The critic belongs to the training; a checkpoint has it.
        """
        model = self.adapters.merged() if self.adapters else self.model
        with replacing(Path(folder)) as scratch:
            write_model(model, tokenizer, scratch)

    def _check_logits(self) -> None:
        """Some families scale or cap their logits after the embedding."""
        ids = torch.arange(4, device=self.device)[None]
        output: Any = self.model.get_output_embeddings()
        with torch.inference_mode():
            theirs = self.model(input_ids=ids).logits
            ours = output(self.model.base_model(ids).last_hidden_state)
        if not theirs.isfinite().all():
            raise ModelError(
                f"the logits must be finite; {type(self.model).__name__} "
                "gives others: its weights hold NaN or infinity, or overflow "
                "in their type: load it again, in fp32 or bf16"
            )
        if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
            raise ModelError(
                "the logits must be the output embedding of the last hidden "
                f"state; {type(self.model).__name__} changes them "
                "afterwards: choose a Llama, GPT-2 or similar model"
            )


def _check_critic(critic: PreTrainedModel, model: PreTrainedModel) -> None:
    """A value model sees the policy's tokens, and none that come later."""
    theirs, ours = vocabulary_size(critic), vocabulary_size(model)
    if theirs != ours:
        raise ModelError(
            f"a separate value model must read the policy's {ours} tokens; "
            f"{type(critic).__name__} has {theirs}: train the reward model "
            "from the SFT model (reward.base), or set ppo.value: shared"
        )
    ids = torch.arange(4, device=critic.device)[None]
    with torch.inference_mode():
        whole, begun = (
            critic.base_model(part).last_hidden_state[:, 0]
            for part in (ids, ids[:, :2])
        )
    if not torch.allclose(whole, begun, rtol=1e-4, atol=1e-4):
        raise ModelError(
            "a separate value model must not look ahead; "
            f"{type(critic).__name__} does: train the reward model from the "
            "SFT model (reward.base), or set ppo.value: shared"
        )
