"""Violations of the layout of lines: joins, splits, blank lines.

As in spacing.py, each function yields the sites of one rule.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.tokens import (
    CLOSING,
    Code,
    Edit,
    Line,
    Site,
    insert,
    replace,
)

BLOCKS = frozenset(("if", "elif", "else", "for", "while", "with", "class"))
BLOCKS |= {"try", "except", "finally"}
NOT_SIMPLE = BLOCKS | {"def", "async", "@", "match", "case"}
LONG = 88  # columns that are too many under every style guide in use


def _simple(line: Line) -> bool:
    """Whether a line is one simple statement, without a comment."""
    return (
        line.head.text not in NOT_SIMPLE
        and line.head.kind != "comment"
        and line.tail.kind != "comment"
        and line.tail.text != ";"
    )


def one_line(code: Code) -> Iterator[Site]:
    """E701: a header and its only statement on one line."""
    follow = [*code.lines[2:], None]
    for (header, body), after in zip(
        pairwise(code.lines), follow, strict=False
    ):
        alone = after is None or len(after.indent) < len(body.indent)
        if (
            header.head.text in BLOCKS
            and header.tail.text == ":"
            and _simple(body)
            and body.indent
            and alone
        ):
            yield replace(header.tail.end, body.head.start, " ")


def joined_statements(code: Code) -> Iterator[Site]:
    """E702: two statements on one line."""
    for line, after in pairwise(code.lines):
        if (
            line.indent == after.indent
            and _simple(line)
            and _simple(after)
            and line.newline.end == after.start
        ):
            yield replace(line.newline.start, after.head.start, "; ")


def semicolons(code: Code) -> Iterator[Site]:
    """E703: a semicolon at the end of a statement."""
    for line in code.lines:
        if _simple(line):
            yield insert(line.newline.start, ";")


def blank_lines(code: Code) -> Iterator[Site]:
    """E303: one blank line more than allowed."""
    for line, after in pairwise(code.lines):
        joined = line.tail.text == ":" or line.head.text == "@"
        end = line.newline.end
        present = code.text.count("\n", end, after.start)
        allowed = 1 if after.indent else 2
        if not joined and end <= after.start and present <= allowed:
            yield insert(after.start, "\n" * (allowed + 1 - present))


def blank_end(code: Code) -> Iterator[Site]:
    """W391: a blank line at the end of the file."""
    # Where the last line is not blank and ends in a newline.
    if code.text[-1:] == "\n" and code.text[-2:-1].strip():
        yield insert(len(code.text), "\n")


def long_lines(code: Code) -> Iterator[Site]:
    """E501: a statement in brackets joined into one long line."""
    for line in code.lines:
        if any(w.kind in ("comment", "backslash") for w in line.words[1:]):
            continue
        edits = []
        for token in line.words[1:]:
            if token.kind == "newline":
                before, after = token.before, token.after
                blank = " "
                if after.text in CLOSING or (
                    before.kind in ("operator", "newline")
                    and before.text != ","
                ):
                    blank = ""
                edits.append(Edit(before.end, after.start, blank))
        saved = sum(e.end - e.start - len(e.new) for e in edits)
        # Only a join that makes the line too long breaks the rule.
        if edits and line.newline.start - line.start - saved > LONG:
            yield tuple(edits)
