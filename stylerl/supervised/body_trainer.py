"""TRL's SFTTrainer with a loss on bodies alone, computed in packed passes.

Logits exist for learnt tokens alone, and no padding is computed.  A module
of its own, since TRL takes seconds to import.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from trl import SFTTrainer

from stylerl.supervised.sft import body_logprobs


class BodyTrainer(SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with another loss."""

    loss_is_scaled_for_ga: Any = True  # by the tokens of all its passes

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """What a pass adds to a step's mean nats a learnt token, ()."""
        columns = ("input_ids", "labels", "attention_mask")
        rows = [  # without padding, as `Snippet.encode` gives them
            (ids[seen.bool()].tolist(), learnt[seen.bool()].tolist())
            for ids, learnt, seen in zip(
                *(inputs[name] for name in columns), strict=True
            )
        ]
        with self.accelerator.autocast():
            logprobs = body_logprobs(
                self.accelerator.unwrap_model(model), rows
            )
        return -logprobs.sum() / (num_items_in_batch or len(logprobs))
