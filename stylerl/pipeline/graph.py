"""The graph that dvc.yaml declares, and the key that names an execution.

`stage_key` is one digest of everything a stage's result depends on: its
command, the bytes of each dependency and the values of its parameters: MLflow
keeps it as a tag, and a checkpoint is found by it.  Only YAML is read here;
what is on disk, and whether it is current, is DVC's to say.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from stylerl import storage
from stylerl.errors import ConfigError


@dataclass(frozen=True)
class Stage:
    """One stage of dvc.yaml."""

    name: str
    command: str
    deps: tuple[str, ...]
    params: tuple[str, ...]  # sections or dotted keys of params.yaml
    outs: tuple[str, ...]  # outputs, metrics and plots alike


def load_stages() -> list[Stage]:
    """The stages in the file's order: each after those that it reads.

    A dependency may be a value of params.yaml: `${sft.base}`.

    Raises:
        ConfigError: there is no dvc.yaml here.
    """
    return [
        Stage(
            name,
            entry["cmd"],
            tuple(_resolved(dep) for dep in entry.get("deps", ())),
            tuple(entry.get("params", ())),
            tuple(_paths(entry)),
        )
        for name, entry in _read(Path("dvc.yaml"))["stages"].items()
    ]


def connected_stages() -> list[Stage]:
    """The stages of a run: all, but for a base that no stage reads.

    It has no part in it where `sft.base` names a folder of the user's.

    Raises:
        ConfigError: as `load_stages`.
    """
    stages = load_stages()
    read = {str(PurePosixPath(d)) for stage in stages for d in stage.deps}
    return [s for s in stages if s.name != "base" or read & {*s.outs}]


def find_stage(name: str) -> Stage:
    """The stage called `name`.

    Raises:
        ConfigError: as `load_stages`.
    """
    return {stage.name: stage for stage in load_stages()}[name]


def stage_key(stage: Stage) -> str:
    """The SHA-256 of command, dependencies and parameters, 64 hex digits."""
    settings = _read(Path("params.yaml")) if stage.params else {}
    content = {
        "cmd": stage.command,
        "deps": inputs(stage),
        "params": {key: _value(settings, key) for key in stage.params},
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def inputs(stage: Stage) -> dict[str, str | None]:
    """The digest of each dependency; None for one that does not exist.

    What DVC made or tracks has the digest that dvc.lock or a .dvc file
    gives it; code and other plain files are read, a folder as a whole.
    """
    tracked = _tracked()
    return {
        dep: _tracked_digest(dep, tracked) or digest(Path(dep))
        for dep in stage.deps
    }


def datasets(stage: Stage) -> dict[str, str]:
    """The digest of each dependency that DVC made or tracks: no code."""
    tracked = _tracked()
    digests = {dep: _tracked_digest(dep, tracked) for dep in stage.deps}
    return {dep: md5 for dep, md5 in digests.items() if md5}


def outputs(name: str) -> dict[str, str]:
    """The digest of each output of a stage, as its last execution left it."""
    entry = _locked().get(name, {})
    return {out["path"]: out["md5"] for out in entry.get("outs", [])}


def _resolved(path: str) -> str:
    """The path, or the value of the parameter that `${...}` names."""
    named = re.fullmatch(r"\$\{([\w.]+)\}", path)
    if not named:
        return path
    return str(_value(_read(Path("params.yaml")), named[1]))


def _paths(entry: Mapping[str, Any]) -> Iterator[str]:
    """The output paths of a stage; each is a string or {path: options}."""
    for kind in ("outs", "metrics", "plots"):
        for item in entry.get(kind, ()):
            yield item if isinstance(item, str) else next(iter(item))


def _tracked() -> dict[str, str]:
    """The digest of every path that DVC made or tracks."""
    digests = {
        path: md5 for name in _locked() for path, md5 in outputs(name).items()
    }
    for file in sorted(Path().glob("*.dvc")):
        if file.is_file():
            for out in _read(file)["outs"]:
                digests[out["path"]] = out["md5"]
    return digests


def _tracked_digest(dep: str, tracked: Mapping[str, str]) -> str | None:
    """The digest of the path, or of the folder around it."""
    for path, md5 in tracked.items():
        if PurePosixPath(dep).is_relative_to(path):
            return md5
    return None


def digest(path: Path) -> str | None:
    """The SHA-256 of a file, or of a folder's names and contents."""
    if path.is_file():
        return storage.digest(path)
    if not path.is_dir():
        return None
    files = {
        file.relative_to(path).as_posix(): digest(file)
        for file in path.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    return hashlib.sha256(
        json.dumps(files, sort_keys=True).encode()
    ).hexdigest()


def _value(settings: Any, key: str) -> Any:
    """The value of a dotted key, None where it is missing."""
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings


def _locked() -> dict[str, Any]:
    """The executions that dvc.lock records, by stage; {} before the first."""
    file = Path("dvc.lock")
    return _read(file).get("stages", {}) if file.exists() else {}


def _read(path: Path) -> dict[str, Any]:
    """The file's content, which is not to be changed."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist; run from the root of a stylerl checkout"
        ) from error


@lru_cache(maxsize=16)
def _parsed(text: bytes) -> dict[str, Any]:
    """YAML, parsed once: a run asks for the same dvc.lock 130 times."""
    return yaml.load(text, yaml.CSafeLoader)
