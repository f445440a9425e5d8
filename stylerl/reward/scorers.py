"""Reward models at work: P(compliant), and the pairwise Bradley-Terry score.

Both are stock sequence classifiers with one output on a language model's
last token (or an encoder's first), trained in stylerl/reward_models.  Padding
is on the right, and a score does not depend on it (Huang et al., arXiv
2403.17031).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.judge.judge import BAR_AFTER
from stylerl.lm import batching
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import cast_weights, context_limit, load_scorer
from stylerl.lm.precision import multiplies_bf16

CLASSIFIES: Final = (
    "multi_label_classification"  # transformers' name of a sigmoid
)
CENTRE = "reward_centre"  # key of config.json


class Scorer(NamedTuple):
    """A trained reward model, and the tokenizer it reads with."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load(folder: Path, device: torch.device) -> Scorer:
    """A reward model that was saved, in bf16 where that is faster.

    Raises:
        ModelError: the folder holds none.
    """
    tokenizer = load_tokenizer(folder)
    model: Any = load_scorer(folder, tokenizer=tokenizer)
    if multiplies_bf16():
        cast_weights(model, torch.bfloat16)
    return Scorer(model.to(device), tokenizer)


@torch.inference_mode()
def score_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int = 64,
) -> NDArray[np.float64]:
    """The reward of each whole text, (N,).

    With fp32 weights it does not depend on the batch; with bf16 ones by
    their rounding alone.

    P(compliant) of a classifier, the centred score of a pairwise model.
    Texts longer than the model's context are cut.
    """
    rows = encode_texts(tokenizer, texts, context_limit(model.config))
    scores = np.empty(len(rows))
    batches = [*batching.batches_by_length(rows, batch_size)]
    for batch in tqdm(batches, "reward model", leave=False, delay=BAR_AFTER):
        ids, mask = batching.padded(
            [rows[i] for i in batch], tokenizer.pad_token_id
        )
        logits = model(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
        ).logits.float()  # (B, 1)
        scores[batch] = logits.squeeze(-1).cpu().numpy()
    if model.config.problem_type == CLASSIFIES:
        return 1 / (1 + np.exp(-scores))
    return scores - getattr(model.config, CENTRE, 0.0)


def encode_texts(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int
) -> list[list[int]]:
    """Token ids of each text, cut to `limit` but ending as all texts do."""
    rows = [batching.encode_document(tokenizer, text) for text in texts]
    return [
        row if len(row) <= limit else [*row[: limit - 1], row[-1]]
        for row in rows
    ]
