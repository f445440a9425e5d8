"""Checkpoints to resume from: complete, and few.

A checkpoint is a folder of safetensors files and one state.json.  It appears
under its final name only when all of it is on disk.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from stylerl.errors import DataError
from stylerl.storage import read_json, replacing, write_json

KEPT = 2
STATE = "state.json"


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
        for name, tensors in checkpoint.tensors.items():
            save_file(
                {k: v.contiguous() for k, v in tensors.items()},
                scratch / f"{name}.safetensors",
            )
        files = [*checkpoint.tensors]
        write_json(scratch / STATE, {"files": files, **checkpoint.state})
    for old in _newest_first(folder)[KEPT:]:
        shutil.rmtree(old)
    return path


def latest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint; None where there is none.

    Raises:
        DataError: it is damaged.
    """
    path = next(iter(_newest_first(folder)), None)
    if path is None:
        return None
    try:
        state = read_json(path / STATE)
        tensors = {
            name: load_file(path / f"{name}.safetensors")
            for name in state.pop("files")
        }
    except (DataError, OSError, KeyError, SafetensorError) as error:
        raise DataError(
            f"checkpoint {path} is damaged ({error}): delete it, and the run "
            "goes on from the one before it"
        ) from error
    return Checkpoint(int(path.name), tensors, state)


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
    """Take up what `optimiser_tensors` gave; rates and other settings stay."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]" * 6), reverse=True)
