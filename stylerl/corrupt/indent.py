"""Violations of indentation: tabs, widths, comments, continuation lines.

As in spacing.py, each function yields the sites of one rule.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.tokens import (
    CLOSING,
    OPENING,
    Code,
    Edit,
    Line,
    Site,
    Token,
    insert,
    replace,
    with_options,
)


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


@with_options
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
    """W191, E101: tabs for every level of indentation that is free."""
    fixed = _fixed_width(code)
    edits = []
    for _, start, blank in _physical(code):
        levels, rest = divmod(len(blank) - fixed, 4)
        if levels > 0 and "\t" not in blank:
            new = " " * fixed + "\t" * levels + " " * rest
            edits.append(Edit(start, start + len(blank), new))
    if edits:
        yield tuple(edits)


@with_options
def shifted_block(code: Code, columns: int) -> Iterator[Site]:
    """E111, E117: one block moved left or right by some columns."""
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
            edits.append(_moved(start, blank, columns))
        if edits:
            yield tuple(edits)


@with_options
def shifted_comment(
    code: Code, columns: int, opens_block: bool
) -> Iterator[Site]:
    """E114, E115, E116: one comment line moved by some columns.

    `opens_block` asks for comments right after a header, or for others.
    """
    for before, line in pairwise(code.lines):
        header = before.tail.text == ":"
        comment = line.head.kind == "comment"
        fits = len(line.indent) + columns >= 0
        if comment and header == opens_block and fits:
            yield (_moved(line.start, line.indent, columns),)


def _continuations(code: Code, visual: bool) -> Iterator[tuple[Line, Token]]:
    """The first token of each line inside brackets, and its statement.

    `visual` asks for brackets with something after them on their own line,
    or for the others.
    """
    for line in code.lines:
        for token in line.words[1:]:
            opener = token.opener
            if (
                token.before.kind == "newline"
                and token.kind != "newline"
                and token.text not in CLOSING
                and opener
                and (opener.after.kind not in ("newline", "comment")) == visual
            ):
                yield line, token


@with_options
def shifted_continuation(
    code: Code, columns: int, visual: bool
) -> Iterator[Site]:
    """E127, E131: one continuation line moved right."""
    for _, token in _continuations(code, visual):
        yield insert(token.start, " " * columns)


@with_options
def outdented_continuation(
    code: Code, columns: int, visual: bool
) -> Iterator[Site]:
    """E122, E128: a continuation line at its statement's indentation.

    `columns` are added to that indentation.
    """
    for line, token in _continuations(code, visual):
        new = " " * (len(line.indent) + columns)
        if len(token.gap) > len(new):
            yield replace(token.before.end, token.start, new)


@with_options
def shifted_hang(code: Code, columns: int) -> Iterator[Site]:
    """E121, E126: the contents of a hanging bracket moved by some columns."""
    for bracket in _hanging_brackets(code):
        edits = [
            _moved(word.start - len(word.gap), word.gap, columns)
            for word in bracket[1:-1]
            if word.before.kind == "newline" and word.kind != "newline"
        ]
        if edits:
            yield tuple(edits)


def hung_close(code: Code) -> Iterator[Site]:
    """E123: a closing bracket indented like the contents of the bracket."""
    for bracket in _hanging_brackets(code):
        close = bracket[-1]
        if close.before.kind == "newline":
            yield replace(
                close.start - len(close.gap), close.start, bracket[2].gap
            )


def _hanging_brackets(code: Code) -> Iterator[list[Token]]:
    """The tokens of brackets with nothing after them on their line."""
    open_at: list[int] = []
    for i, word in enumerate(code.tokens):
        if word.text in OPENING:
            open_at.append(i)
        elif word.text in CLOSING and open_at:
            bracket = code.tokens[open_at.pop() : i + 1]
            if bracket[1].kind == "newline":
                yield bracket


def hanging_close(code: Code) -> Iterator[Site]:
    """E124: a closing bracket on its own line that matches nothing."""
    for line in code.lines:
        for token in line.words[1:]:
            if (
                token.text in CLOSING
                and not token.opener
                and token.before.kind != "newline"
                and token.before.text not in OPENING
            ):
                yield insert(token.start, "\n" + line.indent)


def header_continuation(code: Code) -> Iterator[Site]:
    """E125: a header's continuation line indented like its block."""
    for line in code.lines:
        if line.tail.text != ":":
            continue
        for token in line.words[:-1]:
            after = token.after
            empty = after.text == ")" or after.kind == "newline"
            if token.text == "(" and not token.opener and not empty:
                deeper = "\n" + line.indent + "    "
                yield replace(token.end, after.start, deeper)


def visual_header(code: Code) -> Iterator[Site]:
    """E129: a condition in brackets, split and indented like its block."""
    for line in code.lines:
        head, colon = line.head, line.tail
        if head.text != "if" or colon.text != ":":
            continue
        for token in line.words[1:-2]:
            if token.text in ("and", "or") and not token.opener:
                deeper = "\n" + line.indent + "    "
                yield (
                    Edit(head.end, head.after.start, " ("),
                    Edit(token.end, token.after.start, deeper),
                    Edit(colon.start, colon.start, ")"),
                )
                break
