"""A model of the Hugging Face hub, as a folder of ours."""

import shutil
from pathlib import Path

import huggingface_hub

from stylerl.errors import ModelError
from stylerl.storage import refusal

# Weights without pickle, config, tokenizer (SentencePiece's is a .model), and
# the card with its licence.
FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "README.md", "LICENSE"]


def download(model: str, revision: str, folder: Path) -> None:
    """Fill a folder, which the caller puts into place.

    Raises:
        ModelError: the hub cannot be reached, or has no such model with
            safetensors.
    """
    try:
        huggingface_hub.snapshot_download(
            model, revision=revision, allow_patterns=FILES, local_dir=folder
        )
    except Exception as error:  # of the network, the hub, or the disk
        if refusal(error):
            raise
        reason = str(error).strip() or type(error).__name__
        raise ModelError(
            f"cannot download {model} at revision {revision} from the hub "
            f"({reason.splitlines()[0][:300]}): check base.model and "
            "base.revision, connect to the hub, or set sft.base to a model "
            "folder of yours"
        ) from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the download's own
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"base.model must have weights as safetensors; {model} at "
            f"revision {revision} has none: name a revision that has, such as "
            "refs/pr/1 where somebody converted it, or another model"
        )
