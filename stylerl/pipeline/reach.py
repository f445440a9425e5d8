"""Addresses: whether something answers there in a moment, and their form.

What is at an address may be no server of the kind that is meant, or one
that sends a byte a second: each read has a limit of its own, and all of them
together need one as well.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TypeVar

LOOPBACK = ("127.0.0.1", "localhost", "::1")
T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns, or raises, in a thread that may be left behind.

    Raises:
        TimeoutError: it has not ended after `seconds`.
    """
    told: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            told.append(ask())
        except Exception as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not told:
        raise TimeoutError(f"no answer in {seconds:g} seconds")
    return told[0]


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
