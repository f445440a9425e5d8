"""Supervised fine-tuning: the base model reads compliant code alone.

Loss on every token of eos + text + eos, as in pretraining: prompts are not
masked, which keeps what the base knows of signatures and docstrings.  TRL's
SFTTrainer gets token ids, so that it neither tokenises nor asks the hub;
dropout is off (Huang et al., arXiv 2403.17031, detail 7).
"""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl import training
from stylerl.config import SFTConfig
from stylerl.errors import DataError
from stylerl.models import load_causal_lm, load_tokenizer

HELD_OUT = 300  # compliant snippets of the valid split to measure on
DIGITS = 6


class FineTuned(NamedTuple):
    """The model in fp32, its tokenizer, and metrics/sft.json."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    metrics: dict[str, Any]


class Likelihood(NamedTuple):
    """How well a model predicts texts."""

    loss: float  # nats a token, eos included
    bits_per_byte: float  # bits for a text and its eos, by its UTF-8 bytes

    def rounded(self) -> dict[str, float]:
        """Both by name, without the last bits that threads disturb."""
        return {k: round(v, DIGITS) for k, v in self._asdict().items()}


def fine_tune(
    labels: pd.DataFrame,
    config: SFTConfig,
    seed: int,
    log: training.Log | None = None,
) -> FineTuned:
    """Train the base model on the compliant rows of labels.parquet.

    `log` receives loss and rate with the optimiser step.

    Raises:
        DataError: no compliant snippet is left in a split.
        ModelError: the base model cannot be loaded.
        TrainingError: the loss is not finite.
    """
    tokenizer = load_tokenizer(config.base, config.revision)
    model = load_causal_lm(config.base, config.revision, tokenizer)
    usable = compliant_texts(labels)
    limit = training.token_limit(model, config.max_tokens)
    learnt, dropped = _fitting(
        usable["train"], tokenizer, config.snippets, limit
    )
    held_out, _ = _fitting(usable["valid"], tokenizer, HELD_OUT, limit)
    before = likelihood(model, tokenizer, held_out, config.batch_size)
    loss = _train(model, tokenizer, learnt, config, seed, log)
    after = likelihood(model, tokenizer, held_out, config.batch_size)
    metrics = {
        "snippets": len(learnt),
        "too_long": dropped,
        "train_loss": round(loss, DIGITS),
        "valid": {"before": before.rounded(), "after": after.rounded()},
    }
    return FineTuned(model, tokenizer, metrics)


def compliant_texts(labels: pd.DataFrame) -> dict[str, list[str]]:
    """The compliant texts of each split, in the table's order.

    Raises:
        DataError: a split has none.
    """
    texts = {
        split: labels.loc[
            labels["compliant"] & (labels["split"] == split), "text"
        ].tolist()
        for split in ("train", "valid")
    }
    for split, found in texts.items():
        if not found:
            raise DataError(
                f"fine-tuning needs compliant snippets in the {split} "
                f"split; got none among {len(labels)} labels: raise "
                "label.snippets, or lower label.rough_share"
            )
    return texts


@torch.inference_mode()
def likelihood(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int,
) -> Likelihood:
    """Mean loss a token, and bits per byte, of texts that fit the model."""
    rows = [training.encode_document(tokenizer, text) for text in texts]
    nats, tokens = 0.0, 0
    for batch in training.batches_by_length(rows, batch_size):
        ids, mask = training.pad_right(
            [rows[i] for i in batch], tokenizer.pad_token_id
        )
        ids, mask = ids.to(model.device), mask.to(model.device)  # (B, T)
        logits = model(input_ids=ids, attention_mask=mask).logits
        targets = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
        nats += functional.cross_entropy(
            logits[:, :-1].float().flatten(0, 1),
            targets.flatten(),
            reduction="sum",
        ).item()
        tokens += int(mask[:, 1:].sum())
    size = sum(len(text.encode()) for text in texts)
    return Likelihood(nats / tokens, nats / math.log(2) / size)


def _fitting(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    limit: int,
) -> tuple[list[str], int]:
    """The first `count` texts of at most `limit` tokens, and how many of
    the texts before the last of them were longer."""
    fitting: list[str] = []
    too_long = 0
    for text in texts:
        if len(fitting) == count:
            break
        if len(training.encode_document(tokenizer, text)) > limit:
            too_long += 1
        else:
            fitting.append(text)
    if not fitting:
        raise DataError(
            f"fine-tuning needs snippets of at most {limit} tokens; all "
            f"{len(texts)} compliant ones are longer: raise sft.max_tokens "
            "up to the model's context, or lower filter.max_chars"
        )
    return fitting, too_long


def _train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    config: SFTConfig,
    seed: int,
    log: training.Log | None,
) -> float:
    """Run TRL's SFTTrainer; the mean training loss in nats a token."""
    from datasets import Dataset
    from trl import SFTConfig as Arguments
    from trl import SFTTrainer

    rows = [training.encode_document(tokenizer, text) for text in texts]
    dataset = Dataset.from_dict({"input_ids": rows, "labels": rows})
    with tempfile.TemporaryDirectory() as scratch:
        trainer = SFTTrainer(
            model=model,
            args=Arguments(
                **training.arguments(config, seed, Path(scratch)),
                max_length=None,
            ),
            train_dataset=dataset,
            processing_class=tokenizer,
        )
        loss = training.run(trainer, "sft", log)
    model.eval()
    return loss
