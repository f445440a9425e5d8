"""Violations of the layout of lines: joins, splits, blank lines.

As in spacing.py, each function yields the sites of one rule.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.spacing import ARITHMETIC, BITWISE, COMPARISONS
from stylerl.corrupt.tokens import (
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


def _simple(code: Code, line: Line) -> bool:
    """Whether a line is one simple statement, without a comment."""
    tokens = code.tokens[line.first : line.last]
    return (
        tokens[0].text not in NOT_SIMPLE
        and tokens[0].kind != "comment"
        and tokens[-1].kind != "comment"
        and tokens[-1].text != ";"
    )


def one_line_block(code: Code) -> Iterator[Site]:
    """E701: a header and its only statement on one line."""
    yield from _one_line(code, BLOCKS)


def one_line_function(code: Code) -> Iterator[Site]:
    """E704: a function and its only statement on one line."""
    yield from _one_line(code, frozenset(("def",)))


def _one_line(code: Code, heads: frozenset[str]) -> Iterator[Site]:
    lines = code.lines()
    for i in range(len(lines) - 1):
        header, body = lines[i], lines[i + 1]
        following = lines[i + 2].indent if i + 2 < len(lines) else ""
        colon = code.tokens[header.last - 1]
        if (
            code.tokens[header.first].text in heads
            and colon.text == ":"
            and _simple(code, body)
            and len(following) < len(body.indent)
        ):
            begin = code.tokens[body.first].start
            yield replace(colon.end, begin, " ")


def joined_statements(code: Code) -> Iterator[Site]:
    """E702: two statements on one line."""
    lines = code.lines()
    for line, after in pairwise(lines):
        if (
            line.indent == after.indent
            and _simple(code, line)
            and _simple(code, after)
            and code.tokens[line.last].end == after.start
        ):
            end = code.tokens[line.last].start
            begin = code.tokens[after.first].start
            yield replace(end, begin, "; ")


def semicolons(code: Code) -> Iterator[Site]:
    """E703: a semicolon at the end of a statement."""
    for line in code.lines():
        if _simple(code, line):
            end = code.tokens[line.last].start
            yield insert(end, ";")


def blank_lines(code: Code) -> Iterator[Site]:
    """E303: one blank line more than allowed."""
    lines = code.lines()
    for line, after in pairwise(lines):
        newline = code.tokens[line.last]
        header = code.tokens[line.last - 1].text == ":"
        decorator = code.tokens[line.first].text == "@"
        if not header and not decorator and newline.end <= after.start:
            present = code.text.count("\n", newline.end, after.start)
            allowed = 1 if after.indent else 2
            if present <= allowed:
                new = "\n" * (allowed + 1 - present)
                yield insert(after.start, new)


def decorator_blank(code: Code) -> Iterator[Site]:
    """E304: a blank line after a decorator."""
    for line in code.lines():
        if code.tokens[line.first].text == "@":
            end = code.tokens[line.last].end
            yield insert(end, "\n")


@with_options
def missing_blank(code: Code, rule: str) -> Iterator[Site]:
    """E301, E302, E305, E306: no blank line where one is required."""
    owners: list[Line] = []  # the headers that enclose the line
    defined = False  # whether the last line at the margin was a header
    for line, after in pairwise(code.lines()):
        if not line.indent:
            defined = code.tokens[line.first].text in DEFINITIONS
        if len(after.indent) > len(line.indent):
            owners.append(line)
        while owners and len(owners[-1].indent) >= len(after.indent):
            owners.pop()
        end = code.tokens[line.last].end
        owner = code.tokens[owners[-1].first].text if owners else ""
        defines = code.tokens[after.first].text in DEFINITIONS
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
        end = len(code.text)
        yield insert(end, "\n")


def _ends_in_code(code: Code) -> bool:
    """Whether the last line is not blank and ends in a newline."""
    return code.text[-1:] == "\n" and bool(code.text[-2:-1].strip())


def long_lines(code: Code) -> Iterator[Site]:
    """E501: a statement in brackets joined into one long line."""
    for line in code.lines():
        edits = []
        for i in range(line.first + 1, line.last):
            token, before = code.tokens[i], code.tokens[i - 1]
            if token.kind in ("comment", "backslash"):
                break
            if token.kind == "newline":
                after = code.tokens[i + 1]
                blank = " " if before.text == "," else ""
                tight = after.text in (")", "]", "}")
                if before.kind not in ("operator", "newline") and not tight:
                    blank = " "
                edits.append(
                    Edit(before.end, after.start, "" if tight else blank)
                )
        else:
            saved = sum(e.end - e.start - len(e.new) for e in edits)
            # Only a join that makes the line too long breaks the rule.
            length = code.tokens[line.last].start - line.start - saved
            if edits and length > LONG:
                yield tuple(edits)


def long_comments(code: Code) -> Iterator[Site]:
    """E501: two comment lines joined into one long line."""
    lines = code.lines()
    for line, after in pairwise(lines):
        first, second = code.tokens[line.first], code.tokens[after.first]
        if (
            first.kind == second.kind == "comment"
            and line.indent == after.indent
            and code.tokens[line.last].end == after.start
            and second.text.startswith("# ")
            and first.end + len(second.text) - line.start > LONG
        ):
            yield replace(first.end, second.start + 1, "")


def needless_backslash(code: Code) -> Iterator[Site]:
    """E502: a backslash at the end of a line inside brackets."""
    for i, token in enumerate(code.tokens):
        before = code.tokens[i - 1]
        if (
            token.kind == "newline"
            and token.opener >= 0
            and before.kind not in ("comment", "newline")
        ):
            yield replace(before.end, token.start, " \\")


def break_before_operator(code: Code) -> Iterator[Site]:
    """W503: a line that begins with the operator that ended the last."""
    for i, (word, end, after) in _line_breaks(code):
        if word.text in OPERATORS and ends_operand(code.tokens[i - 1]):
            yield (
                Edit(code.tokens[i - 1].end, end.start, ""),
                Edit(after.start, after.start, f"{word.text} "),
            )


def break_after_operator(code: Code) -> Iterator[Site]:
    """W504: a line that ends with the operator that began the next."""
    for i, (before, end, word) in _line_breaks(code):
        if word.text in OPERATORS and ends_operand(before):
            after = code.tokens[i + 3]
            yield (
                Edit(end.start, end.start, f" {word.text}"),
                Edit(word.start, after.start, ""),
            )


def _line_breaks(
    code: Code,
) -> Iterator[tuple[int, tuple[Token, Token, Token]]]:
    """Line ends inside brackets, with the token before and after each."""
    words = code.tokens
    for i in range(len(words) - 3):
        if words[i + 1].kind == "newline" and words[i + 1].opener >= 0:
            yield i, (words[i], words[i + 1], words[i + 2])
