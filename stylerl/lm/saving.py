"""Models saved: a stock transformers folder, whole or not at all."""

from pathlib import Path

from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from stylerl.lm.pretrained import quiet
from stylerl.storage import replacing


def save_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write model and tokenizer to one folder, completely or not at all."""
    with replacing(Path(folder)) as scratch:
        write_model(model, tokenizer, scratch)


def write_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, scratch: Path
) -> None:
    """Fill a folder that the caller puts into place; see `save_model`.

    Adapters are left out: their layers hold the merged weights.  Sampling
    settings are left out too: those of some bases cannot be saved.
    """
    if model.can_generate():
        model.generation_config = GenerationConfig(
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    state = {k: v for k, v in model.state_dict().items() if ".lora_" not in k}
    with quiet():
        model.save_pretrained(scratch, state_dict=state)
    tokenizer.save_pretrained(scratch)


def tag_with_judge(model: PreTrainedModel, judge: str | None) -> None:
    """Record whose verdicts a model is trained on: `judge` in config.json.

    The judge's identity, or None where it is not known.
    """
    model.config.judge = judge
