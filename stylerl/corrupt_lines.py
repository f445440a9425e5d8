"""Violations of the layout of lines: indentation, joins, blank lines.

As in `corrupt_spacing`, each function yields the sites of one rule.
"""

from collections.abc import Callable, Iterator

from stylerl.lexemes import Code, Edit, Line, Site

BLOCKS = frozenset(
    "if elif else for while with try except finally class".split()
)
NOT_SIMPLE = BLOCKS | {"def", "async", "@", "match", "case"}
LONG = 88  # columns that are too many under every style guide in use


def _physical(code: Code) -> Iterator[tuple[Line, int, str]]:
    """Each indented physical line: its logical line, offset and indent.

    Lines that begin inside a string are left out.
    """
    for line in code.lines():
        if line.indent:
            yield line, line.start, line.indent
        for i in range(line.first + 1, line.last + 1):
            if code.lexemes[i - 1].kind in ("newline", "backslash"):
                blank = code.gap(i)
                start = code.lexemes[i - 1].end
                if blank and code.lexemes[i].kind != "newline":
                    yield line, start, blank


def _fixed_width(code: Code) -> int:
    """Columns of indentation that the text before the body already uses.

    A body behind a docstring must keep the docstring's indentation; a body
    behind a header that ends in a colon is free.
    """
    lines = code.lines()
    prompt = code.text[: code.start].rstrip()
    if not lines or not prompt or prompt.endswith(":"):
        return 0
    return len(lines[0].indent)


def reindent(width: int) -> Callable[[Code], Iterator[Site]]:
    """E111: the whole body indented by `width` columns a level."""

    def sites(code: Code) -> Iterator[Site]:
        fixed = _fixed_width(code)
        edits = []
        for line, start, blank in _physical(code):
            excess = len(line.indent) - fixed
            if excess < 4 or excess % 4 or "\t" in blank:
                continue
            change = excess // 4 * (width - 4)
            new = " " * max(len(blank) + change, 0)
            edits.append(Edit(start, start + len(blank), new))
        if edits:
            yield tuple(edits)

    return sites


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


def _simple(code: Code, line: Line) -> bool:
    """Whether a line is one simple statement, without a comment."""
    lexemes = code.lexemes[line.first : line.last]
    return (
        lexemes[0].text not in NOT_SIMPLE
        and lexemes[0].kind != "comment"
        and lexemes[-1].kind != "comment"
        and lexemes[-1].text != ";"
    )


def one_line_block(code: Code) -> Iterator[Site]:
    """E701: a header and its only statement on one line."""
    lines = code.lines()
    for i in range(len(lines) - 1):
        header, body = lines[i], lines[i + 1]
        following = lines[i + 2].indent if i + 2 < len(lines) else ""
        colon = code.lexemes[header.last - 1]
        if (
            code.lexemes[header.first].text in BLOCKS
            and colon.text == ":"
            and _simple(code, body)
            and len(following) < len(body.indent)
        ):
            begin = code.lexemes[body.first].start
            yield (Edit(colon.end, begin, " "),)


def joined_statements(code: Code) -> Iterator[Site]:
    """E702: two statements on one line."""
    lines = code.lines()
    for line, after in zip(lines, lines[1:], strict=False):
        if (
            line.indent == after.indent
            and _simple(code, line)
            and _simple(code, after)
            and code.lexemes[line.last].end == after.start
        ):
            end = code.lexemes[line.last].start
            begin = code.lexemes[after.first].start
            yield (Edit(end, begin, "; "),)


def semicolons(code: Code) -> Iterator[Site]:
    """E703: a semicolon at the end of a statement."""
    for line in code.lines():
        if _simple(code, line):
            end = code.lexemes[line.last].start
            yield (Edit(end, end, ";"),)


def blank_lines(code: Code) -> Iterator[Site]:
    """E303: one blank line more than allowed."""
    lines = code.lines()
    for line, after in zip(lines, lines[1:], strict=False):
        newline = code.lexemes[line.last]
        header = code.lexemes[line.last - 1].text == ":"
        decorator = code.lexemes[line.first].text == "@"
        if not header and not decorator and newline.end <= after.start:
            present = code.text.count("\n", newline.end, after.start)
            allowed = 1 if after.indent else 2
            if present <= allowed:
                new = "\n" * (allowed + 1 - present)
                yield (Edit(after.start, after.start, new),)


def blank_end(code: Code) -> Iterator[Site]:
    """W391: a blank line at the end of the file."""
    if code.text.endswith("\n") and not code.text.endswith("\n\n"):
        end = len(code.text)
        yield (Edit(end, end, "\n"),)


def long_lines(code: Code) -> Iterator[Site]:
    """E501: a statement in brackets joined into one long line."""
    for line in code.lines():
        edits = []
        for i in range(line.first + 1, line.last):
            lexeme, before = code.lexemes[i], code.lexemes[i - 1]
            if lexeme.kind in ("comment", "backslash"):
                break
            if lexeme.kind == "newline":
                after = code.lexemes[i + 1]
                blank = " " if before.text == "," else ""
                tight = after.text in (")", "]", "}")
                if before.kind not in ("operator", "newline") and not tight:
                    blank = " "
                edits.append(
                    Edit(before.end, after.start, "" if tight else blank)
                )
        else:
            saved = sum(e.end - e.start - len(e.new) for e in edits)
            length = code.lexemes[line.last].start - line.start - saved
            if edits and length > LONG:
                yield tuple(edits)


def long_comments(code: Code) -> Iterator[Site]:
    """E501: two comment lines joined into one long line."""
    lines = code.lines()
    for line, after in zip(lines, lines[1:], strict=False):
        first, second = code.lexemes[line.first], code.lexemes[after.first]
        if (
            first.kind == second.kind == "comment"
            and line.indent == after.indent
            and code.lexemes[line.last].end == after.start
            and second.text.startswith("# ")
            and first.end + len(second.text) - line.start > LONG
        ):
            yield (Edit(first.end, second.start + 1, ""),)
