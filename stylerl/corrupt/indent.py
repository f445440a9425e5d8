"""Violations of indentation: tabs and widths.

As in spacing.py, each function yields the sites of one rule.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.tokens import Code, Edit, Line, Site


def _physical(code: Code) -> Iterator[tuple[Line, int, str]]:
    """Each indented physical line: its logical line, offset and indent.

    Lines that begin inside a string are left out.
    """
    for line in code.lines:
        if line.indent:
            yield line, line.start, line.indent
        for token in line.words[1:]:
            begins = token.before.kind in ("newline", "backslash")
            if begins and token.gap and token.kind != "newline":
                yield line, token.before.end, token.gap


def _fixed_width(code: Code) -> int:
    """Columns of indentation that the text before the body already uses.

    A body after a docstring must keep the docstring's indentation; a body
    after a header that ends in a colon is free.
    """
    prompt = code.text[: code.start].rstrip()
    if not code.lines or not prompt or prompt.endswith(":"):
        return 0
    return len(code.lines[0].indent)


def _moved(start: int, blank: str, columns: int) -> Edit:
    """The indentation `blank` made longer, or shorter, by some columns."""
    return Edit(start, start + len(blank), " " * max(len(blank) + columns, 0))


def reindent(code: Code, width: int) -> Iterator[Site]:
    """E111: the whole body indented by `width` columns a level."""
    fixed = _fixed_width(code)
    edits = []
    for line, start, blank in _physical(code):
        levels, rest = divmod(len(line.indent) - fixed, 4)
        if levels > 0 and not rest and "\t" not in blank:
            edits.append(_moved(start, blank, levels * (width - 4)))
    if edits:
        yield tuple(edits)


def tabs(code: Code) -> Iterator[Site]:
    """W191: tabs for every level of indentation that is free."""
    fixed = _fixed_width(code)
    edits = []
    for _, start, blank in _physical(code):
        levels, rest = divmod(len(blank) - fixed, 4)
        if levels > 0 and "\t" not in blank:
            new = " " * fixed + "\t" * levels + " " * rest
            edits.append(Edit(start, start + len(blank), new))
    if edits:
        yield tuple(edits)


def shallow_block(code: Code) -> Iterator[Site]:
    """E111: one block moved left by two columns."""
    physical = list(_physical(code))
    for header, first in pairwise(code.lines):
        if header.tail.text != ":":
            continue
        edits = []
        for line, start, blank in physical:
            if line.start < first.start:
                continue
            if len(line.indent) < len(first.indent):
                break
            edits.append(_moved(start, blank, -2))
        if edits:
            yield tuple(edits)
