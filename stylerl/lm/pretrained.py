"""transformers' `from_pretrained`, whose errors are one sentence.

Without remote code, without pickle, and without its bars and reports.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers.utils import logging

from stylerl.errors import ModelError


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and load reports out of our output."""
    verbosity, bars = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def from_pretrained(
    factory: Any, name: str | Path, revision: str, **options: Any
) -> Any:
    """Call `factory.from_pretrained`, or say in one sentence why not."""
    try:
        folder = Path(name).expanduser()
        local = folder.is_dir()
    except (OSError, RuntimeError) as error:  # ~nobody, a name too long
        raise ModelError(
            f"a model must be a folder or a hub name; got {name}: {error}"
        ) from error
    if not local and _is_path(str(name)):
        raise ModelError(
            f"model folder {name} does not exist; run the stage that writes "
            "it, or give a hub name"
        )
    if local:
        _check_files(folder, needs_weights="use_safetensors" in options)
    load: Callable[..., Any] = factory.from_pretrained
    try:
        with quiet():
            return load(
                str(folder) if local else str(name),
                revision=revision,
                trust_remote_code=False,
                local_files_only=local,
                **options,
            )
    except Exception as error:  # a damaged file raises any of them
        said = str(error).strip() or type(error).__name__
        cause = said.splitlines()[0][:300]
        raise ModelError(
            f"cannot load {name}: {cause}; if a stage wrote it, run that "
            "again, else take a Llama, GPT-2, Qwen2 or StarCoder2 model"
            if local
            else f"cannot load {name} from the hub (not reachable, or no "
            f"such model at revision {revision}): give a local folder with "
            f"config.json and model.safetensors; the cause was: {cause}"
        ) from error


def _is_path(name: str) -> bool:
    """True where `name` cannot be a hub name, or is one of our outputs."""
    return (
        name.startswith((".", "~", os.sep, "artifacts/", "checkpoints/"))
        or name.count("/") > 1
    )


def _check_files(folder: Path, needs_weights: bool) -> None:
    """Raise ModelError when a model folder lacks a file."""
    wanted = ["config.json"]
    if (
        needs_weights
        and not (folder / "model.safetensors.index.json").exists()
    ):
        wanted.append("model.safetensors")
    for file in wanted:
        if not (folder / file).exists():
            raise ModelError(
                f"a model folder must hold {', '.join(wanted)}; {folder} "
                f"has no {file}: run the stage that writes it again, or "
                "save the model with save_pretrained"
            )
