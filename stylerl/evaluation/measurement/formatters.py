"""autopep8 and black over many texts, in as many processes as there are cores.

Both read code as text and never run it.  Each process is a fresh interpreter
on format_worker.py, which knows neither torch nor stylerl.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from stylerl.errors import StylerlError, require
from stylerl.judge.pool import cores

SCRIPT = Path(__file__).with_name("format_worker.py")


class Draft(NamedTuple):
    """Text to format, and how many of its first rows do not count."""

    text: str
    prompt_rows: int


def autopep8(drafts: Sequence[Draft], width: int, desc: str) -> list[str]:
    """Each text after autopep8, with the prompt's rows as they were."""
    return _format("autopep8", drafts, width, desc)


def black(
    drafts: Sequence[Draft], width: int, desc: str
) -> list[float | None]:
    """The share of each text's rows after the prompt that black changes.

    None where black cannot read the text.
    """
    return _format("black", drafts, width, desc)


def _format(
    tool: str, drafts: Sequence[Draft], width: int, desc: str
) -> list[Any]:
    """One answer a draft, in their order.

    Raises:
        StylerlError: a process died.
    """
    require("pipeline", tool)
    count = min(cores(), len(drafts))
    answers = []
    with ExitStack() as stack:
        workers = [stack.enter_context(_start()) for _ in range(count)]
        for number, process in enumerate(workers):
            assert process.stdin
            with process.stdin:
                json.dump([tool, width, drafts[number::count]], process.stdin)
        for place in tqdm(range(len(drafts)), desc, unit=" texts"):
            process = workers[place % count]
            assert process.stdout
            line = process.stdout.readline()
            if not line:
                raise StylerlError(
                    f"{tool} must answer for every text; its process ended "
                    f"with code {process.wait()}: run the stage again"
                )
            answers.append(json.loads(line))
    return answers


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
