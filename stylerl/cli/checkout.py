"""The root of a checkout, which the commands of the pipeline work in.

An installed stylerl is the library alone: dvc.yaml, tasks/ and flows/ are
files of a checkout, found in the working directory and nowhere else.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from stylerl.errors import StylerlError

MARKS = ("dvc.yaml", "flows")
COMMANDS = ("run", "serve")  # which a checkout adds


def add_commands(arguments: Sequence[str]) -> None:
    """Let a checkout add its commands.

    Args:
        arguments: of the command line.

    Raises:
        StylerlError: one of them is asked for, and this is no checkout.
    """
    if arguments and arguments[0] in COMMANDS:
        enter(f"stylerl {arguments[0]}")
    if all(Path(mark).exists() for mark in MARKS):
        enter("stylerl")
        import_module("flows.commands")


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
