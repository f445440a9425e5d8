"""One process of the formatters: drafts in, formatted texts or shares out.

Started by formatters.py as `python -I format_worker.py`, never by hand: a text
that a formatter hangs on, or crashes on, costs that text alone, and nothing
else is imported here.  One JSON list comes on standard input, `[tool, width,
[[text, prompt_rows], ...]]`; one JSON value a draft goes to standard output.
"""

import json
import signal
import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from types import FrameType
from typing import Any

import autopep8
import black

SECONDS = 3.0  # of CPU; a formatter may not come to an end on a model's code


def main() -> None:
    """Answer the drafts on standard input, in their order."""
    tool, width, drafts = json.load(sys.stdin)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGVTALRM, give_up)
    for text, prompt_rows in drafts:
        print(json.dumps(TOOLS[tool](text, prompt_rows, width)), flush=True)


def format_rows(text: str, prompt_rows: int, width: int) -> str:
    """The text after autopep8, level 1, from the row after the prompt.

    A text that autopep8 crashes on, or does not finish in time, comes back
    as it was.
    """
    options = {
        "aggressive": 1,
        "max_line_length": width,
        "line_range": [prompt_rows + 1, text.count("\n") + 1],
    }
    fixed: str = _within_limit(lambda: autopep8.fix_code(text, options), text)
    return fixed


def changed_share(text: str, prompt_rows: int, width: int) -> float | None:
    """The share of the rows after the prompt that black would change.

    A place where black only inserts counts as one row.  None where black
    cannot read the text, or there is nothing after the prompt.
    """
    mode = black.Mode(line_length=width)
    fixed = _within_limit(lambda: black.format_str(text, mode=mode), None)
    old, first = text.splitlines(), prompt_rows
    if fixed is None or len(old) <= first:
        return None
    blocks = SequenceMatcher(
        None, old, fixed.splitlines(), autojunk=False
    ).get_opcodes()
    changed = sum(
        max(end - max(begin, first), 1)
        for tag, begin, end, _, _ in blocks
        if tag != "equal" and max(begin + 1, end) > first
    )
    return min(1.0, changed / (len(old) - first))


class _TimeUp(BaseException):
    """Not an Exception, which what a formatter calls may catch."""


def _within_limit(work: Callable[[], Any], otherwise: Any) -> Any:
    """What `work` gives within SECONDS, `otherwise` if it fails.

    The timer repeats: what is raised in a destructor is lost.
    """
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)
    try:
        return work()
    except (Exception, _TimeUp):  # a formatter may trip over anything
        return otherwise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def give_up(signum: int, frame: FrameType | None) -> None:
    raise _TimeUp


TOOLS: dict[str, Callable[[str, int, int], str | float | None]] = {
    "autopep8": format_rows,
    "black": changed_share,
}

if __name__ == "__main__":
    main()
