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
    insert,
    replace,
    with_options,
)


def _physical(code: Code) -> Iterator[tuple[Line, int, str]]:
    """Each indented physical line: its logical line, offset and indent.

    Lines that begin inside a string are left out.
    """
    for line in code.lines():
        if line.indent:
            yield line, line.start, line.indent
        for i in range(line.first + 1, line.last + 1):
            if code.tokens[i - 1].kind in ("newline", "backslash"):
                blank = code.gap(i)
                start = code.tokens[i - 1].end
                if blank and code.tokens[i].kind != "newline":
                    yield line, start, blank


def _fixed_width(code: Code) -> int:
    """Columns of indentation that the text before the body already uses.

    A body after a docstring must keep the docstring's indentation; a body
    after a header that ends in a colon is free.
    """
    lines = code.lines()
    prompt = code.text[: code.start].rstrip()
    if not lines or not prompt or prompt.endswith(":"):
        return 0
    return len(lines[0].indent)


@with_options
def reindent(code: Code, width: int) -> Iterator[Site]:
    """E111: the whole body indented by `width` columns a level."""
    fixed = _fixed_width(code)
    edits = []
    for line, start, blank in _physical(code):
        excess = len(line.indent) - fixed
        if excess < 4 or excess % 4 or "\t" in blank:
            continue  # not a whole number of levels of four columns
        change = excess // 4 * (width - 4)
        new = " " * max(len(blank) + change, 0)
        edits.append(Edit(start, start + len(blank), new))
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
    for header, first in pairwise(code.lines()):
        if code.tokens[header.last - 1].text != ":":
            continue
        edits = []
        for line, start, blank in physical:
            if line.start < first.start:
                continue
            if len(line.indent) < len(first.indent):
                break
            new = " " * max(len(blank) + columns, 0)
            edits.append(Edit(start, start + len(blank), new))
        if edits:
            yield tuple(edits)


@with_options
def shifted_comment(
    code: Code, columns: int, opens_block: bool
) -> Iterator[Site]:
    """E114, E115, E116: one comment line moved by some columns.

    `opens_block` asks for comments right after a header, or for others.
    """
    for before, line in pairwise(code.lines()):
        header = code.tokens[before.last - 1].text == ":"
        comment = code.tokens[line.first].kind == "comment"
        width = len(line.indent)
        if comment and header == opens_block and width + columns >= 0:
            end = line.start + width
            yield replace(line.start, end, " " * (width + columns))


def _continuations(code: Code) -> Iterator[tuple[Line, int, int]]:
    """Each line inside brackets: its statement, first token, opener."""
    for line in code.lines():
        for i in range(line.first + 1, line.last):
            opener = code.tokens[i].opener
            closing = code.tokens[i].text in CLOSING
            started = code.tokens[i - 1].kind == "newline"
            if started and opener >= 0 and not closing:
                yield line, i, opener


def _visual(code: Code, opener: int) -> bool:
    """Whether anything follows the bracket on its own line."""
    return code.tokens[opener + 1].kind not in ("newline", "comment")


@with_options
def shifted_continuation(
    code: Code, columns: int, visual: bool
) -> Iterator[Site]:
    """E127, E131: one continuation line moved right."""
    for _, i, opener in _continuations(code):
        token = code.tokens[i]
        if _visual(code, opener) == visual and token.kind != "newline":
            blanks = " " * columns
            yield insert(token.start, blanks)


@with_options
def outdented_continuation(
    code: Code, columns: int, visual: bool
) -> Iterator[Site]:
    """E122, E128: a continuation line at its statement's indentation.

    `columns` are added to that indentation.
    """
    for line, i, opener in _continuations(code):
        token = code.tokens[i]
        width = len(line.indent) + columns
        if (
            _visual(code, opener) == visual
            and token.kind != "newline"
            and len(code.gap(i)) > width
        ):
            begin = code.tokens[i - 1].end
            yield replace(begin, token.start, " " * width)


@with_options
def shifted_hang(code: Code, columns: int) -> Iterator[Site]:
    """E121, E126: the contents of a hanging bracket moved by some columns."""
    for opener, close in _hanging_brackets(code):
        edits = []
        for i in range(opener + 1, close):
            word, blank = code.tokens[i], code.gap(i)
            begins = code.tokens[i - 1].kind == "newline"
            if begins and word.kind != "newline":
                new = " " * max(len(blank) + columns, 0)
                start = word.start - len(blank)
                edits.append(Edit(start, word.start, new))
        if edits:
            yield tuple(edits)


def hung_close(code: Code) -> Iterator[Site]:
    """E123: a closing bracket indented like the contents of the bracket."""
    for opener, close in _hanging_brackets(code):
        bracket, hung = code.tokens[close], code.gap(opener + 2)
        if code.tokens[close - 1].kind == "newline":
            start = bracket.start - len(code.gap(close))
            yield replace(start, bracket.start, hung)


def _hanging_brackets(code: Code) -> Iterator[tuple[int, int]]:
    """Brackets with nothing after them on their line; both indices."""
    open_at: list[int] = []
    for i, word in enumerate(code.tokens):
        if word.text in OPENING:
            open_at.append(i)
        elif word.text in CLOSING and open_at:
            opener = open_at.pop()
            if code.tokens[opener + 1].kind == "newline":
                yield opener, i


def hanging_close(code: Code) -> Iterator[Site]:
    """E124: a closing bracket on its own line that matches nothing."""
    for line in code.lines():
        for i in range(line.first + 1, line.last):
            token = code.tokens[i]
            if (
                token.text in CLOSING
                and token.opener < 0
                and code.tokens[i - 1].kind != "newline"
                and code.tokens[i - 1].text not in OPENING
            ):
                place = Edit(token.start, token.start, "\n" + line.indent)
                yield (place,)


def header_continuation(code: Code) -> Iterator[Site]:
    """E125: a header's continuation line indented like its block."""
    for line in code.lines():
        if code.tokens[line.last - 1].text != ":":
            continue
        for i in range(line.first, line.last - 1):
            token, after = code.tokens[i], code.tokens[i + 1]
            if (
                token.text == "("
                and token.opener < 0
                and after.text != ")"
                and after.kind != "newline"
            ):
                deeper = "\n" + line.indent + "    "
                yield replace(token.end, after.start, deeper)


def visual_header(code: Code) -> Iterator[Site]:
    """E129: a condition in brackets, split and indented like its block."""
    for line in code.lines():
        head, colon = code.tokens[line.first], code.tokens[line.last - 1]
        if head.text != "if" or colon.text != ":":
            continue
        for i in range(line.first + 1, line.last - 2):
            token, after = code.tokens[i], code.tokens[i + 1]
            if token.text in ("and", "or") and token.opener < 0:
                deeper = "\n" + line.indent + "    "
                yield (
                    Edit(head.end, code.tokens[line.first + 1].start, " ("),
                    Edit(token.end, after.start, deeper),
                    Edit(colon.start, colon.start, ")"),
                )
                break
