"""Violations inside a line: spaces, comments, trailing blanks.

Each function yields the sites of one pycodestyle rule in well-formatted
code; a site is the set of edits that violates the rule there once.
"""

from collections.abc import Iterator

from stylerl.corrupt.tokens import (
    CLOSING,
    KEYWORDS,
    OPENING,
    Code,
    Edit,
    Site,
    Token,
    ends_operand,
    insert,
    replace,
    with_options,
)

COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", ":="))
ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "**", "@"))
BITWISE = frozenset(("&", "|", "^", "<<", ">>"))
ASSIGNMENTS = frozenset(
    f"{sign}=" for sign in ARITHMETIC | BITWISE | {"", "%"}
)


def _binary(code: Code, words: frozenset[str]) -> Iterator[int]:
    """Indices of binary operators among `words` with one space each side."""
    tokens = code.tokens
    for i in range(1, len(tokens) - 1):
        if (
            tokens[i].text in words
            and tokens[i].kind == "operator"
            and ends_operand(tokens[i - 1])
            and code.gap(i) == " "
            and code.gap(i + 1) == " "
            and tokens[i + 1].kind != "backslash"
        ):
            yield i


@with_options
def unspaced(code: Code, words: frozenset[str]) -> Iterator[Site]:
    """E225, E226, E227, E228: no space around a binary operator."""
    for i in _binary(code, words):
        before, operator, after = code.tokens[i - 1 : i + 2]
        yield (
            Edit(before.end, operator.start, ""),
            Edit(operator.end, after.start, ""),
        )


@with_options
def before_operator(code: Code, blank: str) -> Iterator[Site]:
    """E221, E223: several spaces or a tab before an operator."""
    for i in _binary(code, COMPARISONS | ASSIGNMENTS | ARITHMETIC):
        yield replace(code.tokens[i - 1].end, code.tokens[i].start, blank)


@with_options
def after_operator(code: Code, blank: str) -> Iterator[Site]:
    """E222, E224: several spaces or a tab after an operator."""
    for i in _binary(code, COMPARISONS | ASSIGNMENTS | ARITHMETIC):
        yield replace(code.tokens[i].end, code.tokens[i + 1].start, blank)


def after_opening(code: Code) -> Iterator[Site]:
    """E201: a space after an opening bracket."""
    for i, token in enumerate(code.tokens[:-1]):
        after = code.tokens[i + 1]
        if (
            token.text in OPENING
            and code.gap(i + 1) == ""
            and after.text not in CLOSING
            and after.kind in ("name", "number", "string", "operator")
        ):
            yield insert(token.end, " ")


def before_closing(code: Code) -> Iterator[Site]:
    """E202: a space before a closing bracket."""
    for i, token in enumerate(code.tokens):
        if (
            token.text in CLOSING
            and i
            and code.gap(i) == ""
            and code.tokens[i - 1].text not in OPENING
            and code.tokens[i - 1].text != ","
        ):
            yield insert(token.start, " ")


def before_punctuation(code: Code) -> Iterator[Site]:
    """E203: a space before a comma or colon."""
    for i, token in enumerate(code.tokens):
        if (
            token.text in (",", ":")
            and i
            and code.gap(i) == ""
            and code.tokens[i - 1].text not in ("[", ":", ",", "(", "{")
            and not _in_subscript(code, token)
        ):
            yield insert(token.start, " ")


def _in_subscript(code: Code, token: Token) -> bool:
    return (
        token.text == ":"
        and token.opener >= 0
        and code.tokens[token.opener].text == "["
    )


@with_options
def after_punctuation(code: Code, blank: str) -> Iterator[Site]:
    """E231, E241, E242: none, several spaces or a tab after a comma, colon."""
    for i, token in enumerate(code.tokens[:-1]):
        after = code.tokens[i + 1]
        if (
            token.text in (",", ":")
            and code.gap(i + 1) == " "
            and after.kind not in ("comment", "backslash")
            and not _in_subscript(code, token)
        ):
            yield replace(token.end, after.start, blank)


def before_call(code: Code) -> Iterator[Site]:
    """E211: a space between a name and its bracket."""
    for i, token in enumerate(code.tokens):
        before = code.tokens[i - 1]
        if (
            token.text in ("(", "[")
            and i
            and code.gap(i) == ""
            and before.kind == "name"
            and before.text not in KEYWORDS | {"print", "match", "case"}
        ):
            yield replace(before.end, token.start, " ")


def keyword_equals(code: Code) -> Iterator[Site]:
    """E251: spaces around the equals sign of an argument."""
    for i, token in enumerate(code.tokens):
        if (
            token.text == "="
            and token.opener >= 0
            and code.gap(i) == ""
            and code.gap(i + 1) == ""
            and not _annotated(code, i)
        ):
            yield replace(token.start, token.end, " = ")


def annotated_default(code: Code) -> Iterator[Site]:
    """E252: no spaces around the default of an annotated argument."""
    for i, token in enumerate(code.tokens):
        if (
            token.text == "="
            and token.opener >= 0
            and code.gap(i) == code.gap(i + 1) == " "
            and _annotated(code, i)
        ):
            after = code.tokens[i + 1]
            yield replace(code.tokens[i - 1].end, after.start, "=")


def _annotated(code: Code, index: int) -> bool:
    """Whether there is a colon between the argument's start and `index`."""
    # Backwards, past nested brackets, to a colon or the argument before.
    opener = code.tokens[index].opener
    for i in range(index - 1, opener, -1):
        token = code.tokens[i]
        if token.opener == opener and token.text in (",", ":"):
            return token.text == ":"
    return False


def before_comment(code: Code) -> Iterator[Site]:
    """E261: one space before an inline comment."""
    for i, token in enumerate(code.tokens):
        if token.kind == "comment" and code.gap(i) == "  ":
            yield replace(token.start - 1, token.start, "")


@with_options
def comment_start(code: Code, prefix: str, inline: bool) -> Iterator[Site]:
    """E262, E265, E266: a comment that does not begin with "# "."""
    for i, token in enumerate(code.tokens):
        after_code = i > 0 and code.tokens[i - 1].kind != "newline"
        if (
            token.kind == "comment"
            and after_code == inline
            and token.text.startswith("# ")
            and token.text[2:3].strip()
            and token.text[2] not in "!#:"
        ):
            yield replace(token.start, token.start + 2, prefix)


@with_options
def after_keyword(code: Code, blank: str) -> Iterator[Site]:
    """E271, E273: several spaces or a tab after a keyword."""
    for i, token in enumerate(code.tokens[:-1]):
        if (
            token.kind == "name"
            and token.text in KEYWORDS
            and code.gap(i + 1) == " "
            and code.tokens[i + 1].kind not in ("comment", "backslash")
        ):
            yield replace(token.end, token.end + 1, blank)


@with_options
def before_keyword(code: Code, blank: str) -> Iterator[Site]:
    """E272, E274: several spaces or a tab before a keyword."""
    for i, token in enumerate(code.tokens):
        if (
            token.kind == "name"
            and token.text in KEYWORDS
            and i
            and code.gap(i) == " "
            and ends_operand(code.tokens[i - 1])
        ):
            yield replace(token.start - 1, token.start, blank)


def keyword_bracket(code: Code) -> Iterator[Site]:
    """E275: `if(condition):`, brackets added where there are none."""
    for line in code.lines():
        head = code.tokens[line.first]
        colon = code.tokens[line.last - 1]
        if (
            head.text in ("if", "elif", "while")
            and colon.text == ":"
            and code.gap(line.first + 1) == " "
        ):
            yield (
                Edit(head.end, head.end + 1, "("),
                Edit(colon.start, colon.start, ")"),
            )


def trailing_blank(code: Code) -> Iterator[Site]:
    """W291: a space at the end of a line."""
    for i, token in enumerate(code.tokens):
        if (
            token.kind == "newline"
            and i
            and code.tokens[i - 1].kind != "newline"
        ):
            yield insert(token.start, " ")


def blank_line_blanks(code: Code) -> Iterator[Site]:
    """W293: a blank line that holds the indentation of the next line."""
    for line in code.lines():
        before = line.first - 1
        if line.indent and before > 0:
            empty = code.tokens[before - 1].kind == "newline"
            if empty and code.tokens[before].kind == "newline":
                place = code.tokens[before].start
                yield insert(place, line.indent)


def after_decorator(code: Code) -> Iterator[Site]:
    """E204: a space after the decorator's sign."""
    for line in code.lines():
        sign = code.tokens[line.first]
        if sign.text == "@" and code.gap(line.first + 1) == "":
            yield insert(sign.end, " ")
