"""What the supervised trainers share."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stylerl.config import SFTConfig
from stylerl.errors import TrainingError
from stylerl.lm import batching
from stylerl.lm.saving import save_model
from stylerl.supervised import sft, training


def test_padding_stands_behind_the_text() -> None:
    ids, mask = batching.padded([[5, 6, 7], [8]], pad=0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_token_that_equals_pad_is_not_masked() -> None:
    _, mask = batching.padded([[0, 1], [1]], pad=0)
    assert mask.tolist() == [[1, 1], [1, 0]]


def test_batches_hold_rows_of_like_length() -> None:
    rows = [[1], [1, 2, 3], [1, 2], [4, 5, 6], [7]]
    # Longest first, equal lengths in their order.
    assert list(batching.batches_by_length(rows, 2)) == [[1, 3], [2, 0], [4]]


@pytest.mark.parametrize("steps", [training.LOG_STEPS, 2])
def test_a_loss_that_is_not_finite_stops_the_run(
    steps: int,  # fewer than are logged too
    tiny_llama: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    with torch.no_grad():
        next(tiny_llama.parameters()).fill_(1e30)  # its square is infinite
    save_model(tiny_llama, tokenizer, tmp_path / "base")
    config = SFTConfig(base=str(tmp_path / "base"), batch_size=1)
    with pytest.raises(TrainingError, match=r"lower sft\.learning_rate"):
        sft.fine_tune(_labels(steps), config, seed=0)


def _labels(steps: int) -> pd.DataFrame:
    texts = [f"x = {i}\n" for i in range(steps)]
    rows = [(text, 0, "train", True) for text in texts]
    return pd.DataFrame(
        [*rows, ("y = 1\n", 0, "valid", True)],
        columns=["text", "body_start", "split", "compliant"],
    )
