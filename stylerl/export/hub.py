"""A model folder with its card, copied to a folder or sent to a hub.

What goes is what transformers loads: weights, configuration, tokenizer.
Anything else in the folder stays.
"""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stylerl import storage
from stylerl.errors import ModelError, StylerlError
from stylerl.lm.pretrained import FOLDERS

FILES = ("*.safetensors", "*.json", "*.jinja", "merges.txt", "*.model")


def model_files(folder: Path) -> list[Path]:
    """The files of a model that transformers loads.

    Raises:
        ModelError: the folder holds no model.
    """
    weights = [*folder.glob("*.safetensors")]
    if not weights or not (folder / "config.json").exists():
        raise ModelError(
            "a model folder must hold config.json and safetensors; "
            f"{folder} does not: run the stage that writes it"
        )
    return sorted({file for pattern in FILES for file in folder.glob(pattern)})


def is_folder(target: str) -> bool:
    """Whether a target is a folder, and no OWNER/NAME of a hub."""
    return (
        target.startswith(FOLDERS)
        or target.count("/") != 1
        or Path(target).is_dir()
    )


def push(folder: Path, card: str, target: str, public: bool) -> str:
    """Copy a model and its card; where they are then.

    Args:
        folder: of the model.
        card: its README.md.
        target: a folder that is empty or not there, or OWNER/NAME on the hub
            that HF_ENDPOINT names, huggingface.co by default.
        public: whether a repository that is made there is for everyone.

    Raises:
        ModelError: `folder` holds no model.
        StylerlError: the folder holds something, or the hub refuses.
        DiskError: the folder cannot be written.
    """
    files = model_files(folder)
    if not is_folder(target):
        with tempfile.TemporaryDirectory() as scratch:
            _copy(files, card, Path(scratch))
            return _upload(Path(scratch), target, public)
    path = Path(target).expanduser().resolve()
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise StylerlError(
            f"a model is pushed to a folder of its own; {path} holds "
            "something: name another, or remove it"
        )
    with storage.replacing(path) as partial:
        partial.mkdir()
        _copy(files, card, partial)
    return str(path)


def _copy(files: Iterable[Path], card: str, folder: Path) -> None:
    for file in files:
        shutil.copyfile(file, folder / file.name)
    storage.write_text(folder / "README.md", card)


def _upload(folder: Path, name: str, public: bool) -> str:
    """One commit with everything; the repository's address."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    hub = HfApi()
    try:
        made = hub.create_repo(name, private=not public, exist_ok=True)
        hub.upload_folder(
            repo_id=name, folder_path=folder, commit_message="stylerl push"
        )
    except Exception as error:  # offline, no token, no such owner, ...
        reason = str(error).strip() or type(error).__name__
        raise StylerlError(
            f"cannot push to {name} on {hub.endpoint}: "
            f"{reason.splitlines()[0][:200]}: check the network, "
            f"`hf auth login` and the name, or push to ./{name}"
        ) from error
    return str(made)
