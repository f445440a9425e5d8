"""Checkpoints to resume from: complete, checked, and few.

A checkpoint is a folder of safetensors files and one state.json, which holds
the digest of each file and its own.  It appears under its final name only when
all of it is on disk; one that is torn all the same (a full disk, a lost power
supply) is noticed by its digests, and the one before it is used.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from stylerl.errors import DataError
from stylerl.storage import digest, read_json, replacing, write_json

KEPT = 2
STATE = "state.json"

log = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """What was saved after `update` updates."""

    update: int
    tensors: dict[str, dict[str, Tensor]]  # by file, by name
    state: dict[str, Any]  # JSON


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, then remove all but the newest two."""
    for scrap in folder.glob(".*.partial"):  # of a process that was killed
        shutil.rmtree(scrap)
    path = folder / f"{checkpoint.update:06d}"
    with replacing(path) as scratch:
        scratch.mkdir()
        digests = {}
        for name, tensors in checkpoint.tensors.items():
            file = scratch / f"{name}.safetensors"
            save_file({k: v.contiguous() for k, v in tensors.items()}, file)
            digests[file.name] = digest(file)
        content = {"digests": digests, "state": checkpoint.state}
        with_digest = {"digest": _digest_of_json(content)}
        write_json(scratch / STATE, content | with_digest)
    for old in _newest_first(folder)[KEPT:]:
        shutil.rmtree(old)
    return path


def latest(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint; None where there is none."""
    for path in _newest_first(folder):
        try:
            return _read(path)
        except (DataError, OSError, KeyError) as error:
            log.warning(
                "checkpoint %s is torn (%s): using the one before it",
                path,
                error,
            )
    return None


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state, by `PARAMETER.NAME`."""
    return {
        f"{parameter}.{name}": value
        for parameter, entry in optimiser.state_dict()["state"].items()
        for name, value in entry.items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
) -> None:
    """Undo `optimiser_tensors`; rates and other settings stay as they are."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _read(path: Path) -> Checkpoint:
    content = read_json(path / STATE)
    expected = (
        content.pop("digest", None) if isinstance(content, dict) else None
    )
    if expected is None or expected != _digest_of_json(content):
        raise DataError(f"{STATE} is not what was written")
    tensors = {}
    for name, written in content["digests"].items():
        if digest(path / name) != written:
            raise DataError(f"{name} is not what was written")
        tensors[Path(name).stem] = load_file(path / name)
    return Checkpoint(int(path.name), tensors, content["state"])


def _newest_first(folder: Path) -> list[Path]:
    folders = (path for path in folder.glob("[0-9]" * 6) if path.is_dir())
    return sorted(folders, reverse=True)


def _digest_of_json(content: Mapping[str, Any]) -> str:
    """The SHA-256 of what a file says, however it is laid out."""
    # Keys that are no strings are read back as strings.
    text = json.dumps(json.loads(json.dumps(content)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
