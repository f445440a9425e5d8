"""From flake8's rows and columns to characters and tokens of a text.

Attributes violations to tokens: a violation's row and column
name a character, and a tokenizer's offsets say which token wrote it.  ruff's
columns are first counted as flake8's.
"""

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Sequence

from stylerl.judge.verdict import SYNTAX, Verdict, Violation

LINE_END = re.compile(r"\r\n|\r|\n")
IN_CHARACTERS = ("E", "W", *SYNTAX)  # codes whose columns count these
MARK = "\ufeff"  # a byte order mark, which flake8 takes off before it counts


def offset(text: str, violation: Violation) -> int:
    """The index in `text` of the character that a violation names.

    At most the index of the line's end, where flake8 names a place beyond
    it, and `len(text)` for a row beyond the last.  pycodestyle (E, W)
    counts characters; pyflakes and other plugins that read the syntax tree
    count UTF-8 bytes; E999 is reported one column to the right of Python's.
    """
    start, line = _line(text, violation.row)
    column = max(violation.col - 1, 0)
    if violation.code == "E999":
        column = max(column - 1, 0)
    elif not violation.code.startswith(IN_CHARACTERS):
        head = line.encode("utf-8", "surrogatepass")[:column]
        column = len(head.decode("utf-8", "ignore"))
    return start + min(column, len(line))


def count_as_flake8(source: bytes, verdict: Verdict) -> Verdict:
    """ruff's verdict with the columns that flake8 would count to.

    ruff counts characters whatever the rule, and `offset` goes by rules.
    """
    if source.isascii():
        return verdict
    text = source.decode(errors="replace")

    def counted(violation: Violation) -> Violation:
        if violation.code.startswith(IN_CHARACTERS):
            return violation
        head = _line(text, violation.row)[1][: violation.col - 1]
        return violation._replace(col=len(head.encode()) + 1)

    return dataclasses.replace(
        verdict, violations=tuple(map(counted, verdict.violations))
    )


def token_at(offsets: Sequence[tuple[int, int]], position: int) -> int:
    """The token that holds a character, or the last one that ends before it.

    Args:
        offsets: (start, end) of each token in the text, as a fast tokenizer
            returns them with `return_offsets_mapping`; starts never fall.
        position: an index in the text.

    Returns:
        the token's index; 0 where the text has no such token.
    """
    starts = [start for start, _ in offsets]
    return max(bisect_right(starts, position) - 1, 0)


def indent_of(row: str) -> str:
    """The blanks and tabs that a row begins with."""
    return row[: len(row) - len(row.lstrip(" \t"))]


def _line(text: str, row: int) -> tuple[int, str]:
    """Where a row starts, counting from 1, and its text without the end."""
    start = len(MARK) if text.startswith(MARK) else 0
    for _ in range(row - 1):
        end = LINE_END.search(text, start)
        if end is None:
            return len(text), ""
        start = end.end()
    end = LINE_END.search(text, start)
    return start, text[start : end.start() if end else len(text)]


def end_of(prompt: str) -> tuple[int, int]:
    """Row and column where a prompt ends, as nodes of a tree have them."""
    last = prompt[prompt.rfind("\n") + 1 :]
    return prompt.count("\n") + 1, len(last.encode("utf-8", "replace"))
