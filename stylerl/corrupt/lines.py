"""Violations of the layout of lines: joins, splits, blank lines.

As in spacing.py, each function yields the sites of one rule.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.spacing import ARITHMETIC, BITWISE, COMPARISONS
from stylerl.corrupt.tokens import (
    CLOSING,
    Code,
    Edit,
    Line,
    Site,
    Token,
    ends_operand,
    insert,
    replace,
    with_options,
)

BLOCKS = frozenset(("if", "elif", "else", "for", "while", "with", "class"))
BLOCKS |= {"try", "except", "finally"}
NOT_SIMPLE = BLOCKS | {"def", "async", "@", "match", "case"}
DEFINITIONS = frozenset(("def", "async", "class", "@"))
OPERATORS = ARITHMETIC | BITWISE | COMPARISONS | {"and", "or"}
LONG = 88  # columns that are too many under every style guide in use


def _simple(line: Line) -> bool:
    """Whether a line is one simple statement, without a comment."""
    return (
        line.head.text not in NOT_SIMPLE
        and line.head.kind != "comment"
        and line.tail.kind != "comment"
        and line.tail.text != ";"
    )


@with_options
def one_line(code: Code, heads: frozenset[str]) -> Iterator[Site]:
    """E701, E704: a header and its only statement on one line."""
    follow = [*code.lines[2:], None]
    for (header, body), after in zip(
        pairwise(code.lines), follow, strict=False
    ):
        alone = after is None or len(after.indent) < len(body.indent)
        if (
            header.head.text in heads
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


def decorator_blank(code: Code) -> Iterator[Site]:
    """E304: a blank line after a decorator."""
    for line in code.lines:
        if line.head.text == "@":
            yield insert(line.newline.end, "\n")


@with_options
def missing_blank(code: Code, rule: str) -> Iterator[Site]:
    """E301, E302, E305, E306: no blank line where one is required."""
    owners: list[Line] = []  # the headers that enclose the line
    defined = False  # whether the last line at the margin was a header
    for line, after in pairwise(code.lines):
        if not line.indent:
            defined = line.head.text in DEFINITIONS
        if len(after.indent) > len(line.indent):
            owners.append(line)
        while owners and len(owners[-1].indent) >= len(after.indent):
            owners.pop()
        end = line.newline.end
        owner = owners[-1].head.text if owners else ""
        defines = after.head.text in DEFINITIONS
        if not (owner or defines or (line.indent and defined)):
            continue
        if end < after.start and _needs_blank(owner, defines) == rule:
            yield replace(end, after.start, "")


def _needs_blank(owner: str, defines: bool) -> str:
    """The rule that asks for blank lines before a statement."""
    if not owner:
        return "E302" if defines else "E305"
    if not defines:
        return ""
    return "E301" if owner == "class" else "E306"


def missing_end(code: Code) -> Iterator[Site]:
    """W292: no newline at the end of the file."""
    if _ends_in_code(code):
        yield replace(len(code.text) - 1, len(code.text), "")


def blank_end(code: Code) -> Iterator[Site]:
    """W391: a blank line at the end of the file."""
    if _ends_in_code(code):
        yield insert(len(code.text), "\n")


def _ends_in_code(code: Code) -> bool:
    """Whether the last line is not blank and ends in a newline."""
    return code.text[-1:] == "\n" and bool(code.text[-2:-1].strip())


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


def long_comments(code: Code) -> Iterator[Site]:
    """E501: two comment lines joined into one long line."""
    for line, after in pairwise(code.lines):
        first, second = line.head, after.head
        if (
            first.kind == second.kind == "comment"
            and line.indent == after.indent
            and line.newline.end == after.start
            and second.text.startswith("# ")
            and first.end + len(second.text) - line.start > LONG
        ):
            yield replace(first.end, second.start + 1, "")


def needless_backslash(code: Code) -> Iterator[Site]:
    """E502: a backslash at the end of a line inside brackets."""
    for end in _line_breaks(code):
        if end.before.kind not in ("comment", "newline"):
            yield replace(end.before.end, end.start, " \\")


def break_before_operator(code: Code) -> Iterator[Site]:
    """W503: a line that begins with the operator that ended the last."""
    for end in _line_breaks(code):
        word, after = end.before, end.after
        if word.text in OPERATORS and ends_operand(word.before):
            yield (
                Edit(word.before.end, end.start, ""),
                Edit(after.start, after.start, f"{word.text} "),
            )


def break_after_operator(code: Code) -> Iterator[Site]:
    """W504: a line that ends with the operator that began the next."""
    for end in _line_breaks(code):
        word = end.after
        if word.text in OPERATORS and ends_operand(end.before):
            yield (
                Edit(end.start, end.start, f" {word.text}"),
                Edit(word.start, word.after.start, ""),
            )


def _line_breaks(code: Code) -> Iterator[Token]:
    """Line ends inside brackets."""
    for token in code.tokens:
        if token.kind == "newline" and token.opener:
            yield token
