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

# How a name begins that is none of the hub's.
FOLDERS = (".", "~", os.sep, "artifacts/", "checkpoints/")


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


def from_pretrained(factory: Any, name: str | Path, **options: Any) -> Any:
    """Call `factory.from_pretrained`, or say in one sentence why not.

    A name that is no folder's is one of the hub.
    """
    folder = os.path.expanduser(name)
    local = os.path.isdir(folder)
    if not local and str(name).startswith(FOLDERS):
        raise ModelError(
            f"model folder {name} does not exist; run the stage that writes "
            "it, or give a hub name"
        )
    load: Callable[..., Any] = factory.from_pretrained
    try:
        with quiet():
            return load(
                folder if local else str(name),
                trust_remote_code=False,
                local_files_only=local,
                **options,
            )
    except Exception as error:  # a damaged file raises any of them
        reason = str(error).strip() or type(error).__name__
        cause = " ".join(reason.split())[:300]
        raise ModelError(
            f"cannot load {name}: {cause}; if a stage wrote it, run that "
            "again, else take a Llama, GPT-2, Qwen2 or StarCoder2 model"
            if local
            else f"cannot load {name} from the hub (not reachable, or no "
            "such model): give a local folder with config.json and "
            f"model.safetensors; the cause was: {cause}"
        ) from error
