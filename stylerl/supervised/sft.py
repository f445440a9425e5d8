"""Supervised fine-tuning: the base model reads compliant code alone.

A snippet is learnt as PPO and the evaluation ask for it: the start of its
file, then the prompt, with signature and docstring, then body + eos, and the
loss is on the latter alone.  A model that learns whole texts writes a second
docstring after a prompt in which the author wrote none.  TRL's SFTTrainer
gets token ids, so that it neither tokenises nor asks the hub; dropout is off
(Huang et al., arXiv 2403.17031, detail 7).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import SFTConfig
from stylerl.errors import DataError
from stylerl.lm.adapters import Adapters
from stylerl.lm.context import nearest_lines, tag_with_context
from stylerl.lm.encoding import encode_code, encode_prompt, load_tokenizer
from stylerl.lm.logprobs import response_scores
from stylerl.lm.models import context_limit, load_causal_lm
from stylerl.lm.packing import Group, pack
from stylerl.lm.precision import multiplies_bf16
from stylerl.lm.sampling import response_logprobs
from stylerl.supervised import training

HELD_OUT = 150  # compliant snippets of the valid split to measure on
DIGITS = 6


class FineTuned(NamedTuple):
    """The model, its tokenizer, and metrics/sft.json."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    metrics: dict[str, Any]


class Snippet(NamedTuple):
    """Code in two parts: what is given, and what is learnt."""

    prompt: str
    body: str
    above: str = ""  # what stands above it in its file

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, context: int = 0
    ) -> tuple[list[int], list[int]]:
        """Token ids of what is given and of what is learnt, body + eos; each
        part is tokenised alone, as in sampling.

        At most `context` tokens of what stands above come before them.
        """
        lines = nearest_lines(tokenizer, self.above, context)
        given = encode_prompt(tokenizer, self.prompt, lines)
        body = encode_code(tokenizer, self.body)
        return given, [*body, tokenizer.eos_token_id]


def fine_tune(
    labels: pd.DataFrame,
    config: SFTConfig,
    seed: int,
    log: training.Log | None = None,
    above: Mapping[str, str] | None = None,
) -> FineTuned:
    """Train the base model on the compliant rows of labels.parquet.

    `log` receives loss and rate with the optimiser step; `above` is what
    stands above functions in their files, by their text.

    Raises:
        DataError: no compliant snippet is left in a split.
        ModelError: the base model cannot be loaded.
        TrainingError: the loss is not finite.
    """
    # 1. The model.
    tokenizer = load_tokenizer(config.base)
    model = load_causal_lm(config.base, tokenizer=tokenizer)
    # 2. What is learnt, and what measures it.
    usable = compliant_snippets(labels, above)
    limit, context = config.max_tokens, config.context
    tag_with_context(model, context)
    room = context_limit(model.config) - context
    learnt, dropped = _fitting(
        usable, "train", tokenizer, config.snippets, limit, room
    )
    held_out, _ = _fitting(usable, "valid", tokenizer, HELD_OUT, limit, room)

    def measure() -> dict[str, float]:
        return likelihood(model, tokenizer, held_out, context)

    # 3. Measure, train, measure.
    adapters = None
    if config.lora_rank:
        adapters = training.adapt(model, config.lora_rank, seed)
    before = measure()
    loss = _train(model, adapters, tokenizer, learnt, config, seed, log)
    after = measure()
    metrics = {
        "snippets": len(learnt),
        "too_long": dropped,
        "train_loss": round(loss, DIGITS),
        "valid": {"before": before, "after": after},
    }
    return FineTuned(model, tokenizer, metrics)


def compliant_snippets(
    labels: pd.DataFrame, above: Mapping[str, str] | None = None
) -> dict[str, list[Snippet]]:
    """The compliant snippets of each split, in the table's order.

    `above` is what stands above them, by their text.
    """
    snippets: dict[str, list[Snippet]] = {"train": [], "valid": []}
    columns = ("split", "text", "body_start")
    clean = labels[labels["compliant"] & labels["split"].isin(snippets)]
    for split, text, at in zip(*(clean[c] for c in columns), strict=True):
        at = max(at, 0)  # a file has no body: all of it is learnt
        before = (above or {}).get(text, "")
        snippets[split].append(Snippet(text[:at], text[at:], before))
    return snippets


@torch.inference_mode()
def likelihood(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    snippets: Sequence[Snippet],
    context: int = 0,
) -> dict[str, float]:
    """How well a model predicts bodies that fit it from their prompts.

    `loss` is nats a token, eos included, and `bits_per_byte` the bits for a
    body and its eos by its UTF-8 bytes, without the last digits that threads
    disturb.
    """
    prompts, bodies = zip(
        *(snippet.encode(tokenizer, context) for snippet in snippets),
        strict=True,
    )
    nats = -sum(
        float(logprobs.double().sum())
        for logprobs in response_logprobs(model, prompts, bodies)
    )
    tokens = sum(map(len, bodies))
    size = sum(len(snippet.body.encode()) for snippet in snippets)
    return {
        "loss": round(nats / tokens, DIGITS),
        "bits_per_byte": round(nats / math.log(2) / size, DIGITS),
    }


def body_logprobs(
    model: PreTrainedModel, rows: Sequence[tuple[list[int], list[int]]]
) -> Tensor:
    """Log-probabilities of all learnt tokens, (N,) nats.

    `rows` are what `Snippet.encode` gives.
    """
    groups = [Group(given, [learnt]) for given, learnt in rows]
    packed = pack(groups).to(model.device)
    return response_scores(model, packed, 1.0).logprobs


def _fitting(
    usable: Mapping[str, Sequence[Snippet]],
    split: str,
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    limit: int,
    room: int,
) -> tuple[list[Snippet], int]:
    """The first `count` snippets of a split whose body has at most `limit`
    tokens and that fit in `room`, and how many of those before the last of
    them were longer."""
    fitting: list[Snippet] = []
    too_long = 0
    for snippet in usable[split]:
        if len(fitting) == count:
            break
        given, learnt = snippet.encode(tokenizer)
        if len(learnt) > limit or len(given) + len(learnt) > room:
            too_long += 1
        else:
            fitting.append(snippet)
    if not fitting:
        raise DataError(
            f"fine-tuning needs, in the split {split}, compliant snippets of "
            f"at most {room} tokens with bodies of at most {limit}; there are "
            f"{len(usable[split])}, and none fits: raise label.snippets, "
            "sft.max_tokens or filter.test_share, or lower filter.max_chars"
        )
    return fitting, too_long


def _train(
    model: PreTrainedModel,
    adapters: Adapters | None,
    tokenizer: PreTrainedTokenizerBase,
    snippets: Sequence[Snippet],
    config: SFTConfig,
    seed: int,
    log: training.Log | None,
) -> float:
    """Run TRL's SFTTrainer; the mean training loss in nats a token."""
    from datasets import Dataset
    from trl import SFTConfig as Arguments

    from stylerl.supervised.body_trainer import body_trainer

    rows = [snippet.encode(tokenizer, config.context) for snippet in snippets]
    dataset = Dataset.from_dict(
        {
            "input_ids": [given + learnt for given, learnt in rows],
            "labels": [[-100] * len(given) + learnt for given, learnt in rows],
        }
    )
    trainer = body_trainer(
        model=model,
        args=Arguments(
            **training.training_arguments(config, seed)
            | {
                "num_train_epochs": config.epochs,
                # Adapters' frozen weights are bf16 as they are.
                "bf16": multiplies_bf16() and adapters is None,
            },
            max_length=None,
        ),
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    loss = training.train_with_progress(trainer, "sft", log, adapters)
    model.eval()
    return loss
