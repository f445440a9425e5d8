"""TRL's SFTTrainer with a loss on bodies alone, computed in packed passes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers import TrainerCallback
from trl import SFTTrainer

from stylerl.lm.adapters import Adapters
from stylerl.supervised.sft import body_logprobs


class BodyTrainer(SFTTrainer):  # type: ignore[misc]
    """Logits exist for learnt tokens alone, and no padding is computed."""

    loss_is_scaled_for_ga: Any = True  # by the tokens of all its passes

    def __init__(self, adapters: Adapters | None, **options: Any) -> None:
        """Train `adapters`, or all weights; `options` are SFTTrainer's."""
        super().__init__(**options)
        if adapters is not None:
            self.add_callback(_Merge(adapters))

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """What a pass adds to an optimiser step's mean nats a token, ()."""
        rows = [
            (ids[seen].tolist(), learnt[seen].tolist())
            for ids, learnt, seen in zip(
                inputs["input_ids"],
                inputs["labels"],
                inputs["attention_mask"].bool(),
                strict=True,
            )
        ]
        logprobs = body_logprobs(model, rows)
        return -logprobs.sum() / (num_items_in_batch or len(logprobs))


class _Merge(TrainerCallback):
    """Lets the model compute with what its adapters have learnt."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.adapters.merge()
