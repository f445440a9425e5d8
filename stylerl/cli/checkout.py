"""The root of a checkout, which the commands of the pipeline work in.

An installed stylerl is the library alone: dvc.yaml, tasks/ and flows/ are
files of a checkout, found in the working directory and nowhere else.
"""

import sys
from pathlib import Path

from stylerl.errors import StylerlError

MARKS = ("dvc.yaml", "flows")


def enter(command: str, instead: str = "") -> None:
    """Make `flows` importable from the working directory.

    Args:
        command: what needs it, for the message.
        instead: options with which it needs none.

    Raises:
        StylerlError: the working directory is not the root of a checkout.
    """
    root = Path.cwd()
    other = f", or {instead}" if instead else ""
    for mark in MARKS:
        if not (root / mark).exists():
            raise StylerlError(
                f"`{command}` needs a checkout of stylerl{other}; {root} has "
                f"no {mark}: `git clone` it and run there"
            )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
