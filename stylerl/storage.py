"""Files on disk: written whole or not at all.

A reader sees the old file or the new one, never half of one: everything is
written beside its destination, flushed, and moved into place.  Tables are
parquet, everything else JSON; the same content gives the same bytes, which
DVC relies on.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stylerl.errors import DataError, DiskError

if TYPE_CHECKING:
    import pandas as pd

# Why the system writes no file, and what to do about it.
REFUSALS = {
    errno.ENOSPC: "the disk is full; make room, `dvc gc --workspace` drops "
    "the results of earlier parameters",
    errno.EDQUOT: "the disk quota is used up; make room",
    errno.EFBIG: "a file may not grow that large here; make room, or raise "
    "the limit (ulimit -f)",
    errno.EROFS: "the disk is read-only; work in a folder of your own",
    errno.EACCES: "the folder does not permit it; work in one of your own",
    errno.EPERM: "the system does not permit it; work in a folder of your own",
    errno.EEXIST: "a file stands where a folder must be; move it",
    errno.ENOTDIR: "a file stands where a folder must be; move it",
    errno.EISDIR: "a folder stands where a file must be; move it",
    errno.EBUSY: "something is mounted there; take another place",
}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a scratch path that becomes `path` when the block succeeds.

    The scratch path may be made a file or a folder; on an exception it is
    removed and `path` stays as it was.

    Raises:
        DiskError: the disk is full, or may not be written.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.ismount(path):  # could be emptied, and not replaced
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            yield scratch
            _flush(scratch)
            if path.is_symlink():  # what it leads to stays
                path.unlink()
            elif path.is_dir():
                shutil.rmtree(path)
            os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            if scratch.is_dir():
                shutil.rmtree(scratch)
            else:
                scratch.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise one clear DiskError where `path` cannot be written.

    Raises:
        DiskError: the block failed because the disk is full, or may not be
            written; other exceptions pass.
    """
    try:
        yield
    except Exception as error:
        reason = refusal(error)
        if reason is None:
            raise
        raise DiskError(f"cannot write {path}: {reason}") from error


def refusal(error: BaseException) -> str | None:
    """Why a file could not be written, and the remedy; None: it was not that.

    Its words count, since safetensors and pyarrow keep no error number.
    """
    numbers = re.findall(r"(?:Errno|os error) (\d+)", str(error))
    return next(
        (REFUSALS[n] for n in map(int, numbers) if n in REFUSALS), None
    )


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with Unix line ends."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: the file is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"{path} does not exist; run the stage that writes it"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a parquet table."""
    with replacing(path) as scratch:
        table.to_parquet(scratch, index=False, compression="zstd")


def read_table(path: Path) -> "pd.DataFrame":
    """Read a parquet table.

    Raises:
        DataError: the file is missing or not parquet.
    """
    import pandas as pd  # half a second, which most commands do not need

    try:
        return pd.read_parquet(path)
    except FileNotFoundError as error:
        raise DataError(
            f"{path} does not exist; run the stage that writes it"
        ) from error
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not a parquet table: {error}") from error


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Force a file, or every file of a folder, to disk."""
    files = path.rglob("*") if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
