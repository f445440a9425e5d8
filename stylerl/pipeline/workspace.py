"""The folder that a run works in: one run at a time, parameters, data.

Every path is relative to the current directory, as it is for DVC.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stylerl import config, storage
from stylerl.config import Params
from stylerl.errors import ConfigError, StylerlError

PARAMS = Path("params.yaml")
LOCK = Path(".dvc/tmp/stylerl.lock")


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the workspace for one run; the kernel lets go when it dies.

    Two runs in one folder would overwrite each other's params.yaml between
    two stages, which DVC's own locks cannot see.

    Raises:
        StylerlError: another run holds it.
        DiskError: it cannot be written.
    """
    with storage.writing(LOCK):
        LOCK.parent.mkdir(parents=True, exist_ok=True)
        file = LOCK.open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StylerlError(
                f"one run at a time may work in {Path.cwd()}, and another "
                "does; wait for it, cancel it, or use a second clone"
            ) from error
        yield


def resolve(preset: str | None, changes: Mapping[str, Any] | None) -> Params:
    """The parameters of a preset, or of params.yaml, with changes on top.

    Raises:
        ConfigError: the preset, the file or a change breaks a rule.
    """
    params = (
        config.load(PARAMS) if preset is None else config.from_preset(preset)
    )
    return config.override(params, changes or {})


def settings() -> Params:
    """The parameters of params.yaml, or the defaults where there is none.

    Raises:
        ConfigError: the file breaks a rule.
    """
    return config.load(PARAMS) if PARAMS.exists() else Params()


def configure(preset: str | None, changes: Mapping[str, Any] | None) -> Params:
    """Write the parameters of `resolve` to params.yaml, and return them.

    Without preset and changes the file stays as it is.  What a run used is
    what the file holds afterwards, so `dvc repro` agrees with it.

    Raises:
        ConfigError: as `resolve`; the file is then untouched.
    """
    if PARAMS.is_dir():  # which would be replaced
        raise ConfigError(f"{PARAMS} must be a file; it is a folder: move it")
    params = resolve(preset, changes)
    if preset is not None or changes:
        storage.write_text(PARAMS, config.render(params))
    return params
