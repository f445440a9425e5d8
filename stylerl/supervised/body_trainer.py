"""TRL's SFTTrainer with a loss on bodies alone, computed in packed passes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers import Trainer

from stylerl.supervised.sft import body_logprobs


def body_trainer(**options: Any) -> Trainer:
    """A trainer of answers alone.

    Logits exist for learnt tokens alone, and no padding is computed.
    `options` are SFTTrainer's.
    """
    from trl import SFTTrainer  # takes seconds

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
            """The share of a pass in a step's mean nats a learnt token, ()."""
            with self.accelerator.autocast():
                logprobs = body_logprobs(
                    self.accelerator.unwrap_model(model), _rows(inputs)
                )
            return -logprobs.sum() / (num_items_in_batch or len(logprobs))

    trainer: Trainer = BodyTrainer(**options)
    return trainer


def _rows(inputs: Mapping[str, Tensor]) -> list[tuple[list[int], list[int]]]:
    """The rows of a padded batch, as `Snippet.encode` gives them."""
    ids, learnt = inputs["input_ids"], inputs["labels"] != -100
    given = inputs["attention_mask"].bool() & ~learnt
    return [
        (row[before].tolist(), row[after].tolist())
        for row, before, after in zip(ids, given, learnt, strict=True)
    ]
