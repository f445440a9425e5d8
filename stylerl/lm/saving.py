"""Models saved: a stock transformers folder, whole or not at all."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from stylerl.errors import DiskError, ModelError
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.pretrained import quiet
from stylerl.storage import rehearse, replacing, writing


def save_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write model and tokenizer to one folder, completely or not at all."""
    with replacing(Path(folder)) as scratch:
        write_model(model, tokenizer, scratch)


def rehearse_saving(
    source: str | Path, folders: Sequence[Path], files: Sequence[Path] = ()
) -> None:
    """Try what can fail when models are saved, before they are trained.

    Args:
        source: the folder of the model to start from.
        folders: where the trained ones will be written.
        files: what else will be.

    Raises:
        DiskError: there is no room for as many weights, or one of these
            cannot be written.
        ModelError: the tokenizer cannot be loaded, or not saved.
    """
    tokenizer = load_tokenizer(source)
    for path in (*folders, *files):
        rehearse(path)
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise DiskError(
                f"{folder} must be a folder, for the model that is trained; "
                "it is a file: remove it"
            )
    parent = folders[0].parent
    with (
        writing(parent),
        TemporaryDirectory(dir=parent, suffix=".partial") as tried,
    ):
        try:
            tokenizer.save_pretrained(tried)
        except OSError:
            raise
        except Exception as error:  # as its files have it
            raise ModelError(
                f"a model's tokenizer must be one that can be saved; that of "
                f"{source} is not ({error}): mend its files"
            ) from error
    weights = Path(source).expanduser().glob("*.safetensors")
    # Twice: a file may hold bf16, and what is trained be fp32.
    needed = 2 * len(folders) * sum(file.stat().st_size for file in weights)
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise DiskError(
            f"what is trained from {source} takes up to "
            f"{needed / 2**30:.2f} GiB; {parent} has {free / 2**30:.2f} GiB "
            "left: make room, `dvc gc --workspace` drops the results of "
            "earlier parameters"
        )


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

    The judge's identity, or None where it is not known; models under
    different judges are not compared without a warning.
    """
    model.config.judge = judge
