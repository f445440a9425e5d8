"""Addresses: which need no proxy, and how they are written and shown."""

import os
import re
from pathlib import Path

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def spare_loopback() -> None:
    """Let no proxy be asked for what is on this machine.

    Programs of Python look at both spellings, and at one alone if it is set.
    """
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name for name in spared.split(",") if name.strip()]
    if "*" not in names:
        names += [name for name in LOOPBACK if name not in names]
    for variable in ("no_proxy", "NO_PROXY"):
        os.environ[variable] = ",".join(names)


def shown(text: str) -> str:
    """Its addresses without user and password, for messages and links."""
    return re.sub(r"//\S*@", "//", text)


def sqlite(file: Path) -> str:
    """The address of an SQLite file, in which % and ? mean something."""
    return f"sqlite:///{file}".replace("%", "%25").replace("?", "%3F")
