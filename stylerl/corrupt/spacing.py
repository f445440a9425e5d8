"""Violations inside a line: spaces, comments, trailing blanks.

Each function yields the sites of one pycodestyle rule in well-formatted
code; a site is the set of edits that violates the rule there once.  Where
only the blanks before a token change, the function says of which tokens.
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
)

COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", ":="))
ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "**", "@"))
ASSIGNMENTS = frozenset(
    f"{sign}=" for sign in ARITHMETIC | {"", "&", "|", "^", "<<", ">>", "%"}
)
ALIGNED = COMPARISONS | ASSIGNMENTS | ARITHMETIC
NOT_CALLED = KEYWORDS | {"print", "match", "case"}


def _is_binary(token: Token, words: frozenset[str]) -> bool:
    """Whether it is a binary operator among `words`, a space each side."""
    return (
        token.text in words
        and token.kind == "operator"
        and ends_operand(token.before)
        and token.gap == token.after.gap == " "
        and token.after.kind != "backslash"
    )


def unspaced(code: Code, words: frozenset[str]) -> Iterator[Site]:
    """E225, E226: no space around a binary operator."""
    for token in code.tokens:
        if _is_binary(token, words):
            yield (
                Edit(token.before.end, token.start, ""),
                Edit(token.end, token.after.start, ""),
            )


def before_operator(token: Token) -> bool:
    """E221: several spaces before an operator."""
    return _is_binary(token, ALIGNED)


def after_operator(token: Token) -> bool:
    """E222: several spaces after an operator."""
    return _is_binary(token.before, ALIGNED)


def after_opening(token: Token) -> bool:
    """E201: a space after an opening bracket."""
    return (
        token.before.text in OPENING
        and token.text not in CLOSING
        and token.kind in ("name", "number", "string", "operator")
    )


def before_closing(token: Token) -> bool:
    """E202: a space before a closing bracket."""
    return token.text in CLOSING and token.before.text not in OPENING | {","}


def before_punctuation(token: Token) -> bool:
    """E203: a space before a comma or colon."""
    return (
        token.text in (",", ":")
        and token.before.text not in ("[", ":", ",", "(", "{")
        and not _in_subscript(token)
    )


def after_punctuation(token: Token) -> bool:
    """E231, E241: none or several spaces after a comma, colon."""
    return (
        token.before.text in (",", ":")
        and token.kind not in ("comment", "backslash")
        and not _in_subscript(token.before)
    )


def _in_subscript(token: Token) -> bool:
    opener = token.opener
    return token.text == ":" and opener is not None and opener.text == "["


def before_call(token: Token) -> bool:
    """E211: a space between a name and its bracket."""
    before = token.before
    called = before.kind == "name" and before.text not in NOT_CALLED
    return token.text in ("(", "[") and called


def keyword_equals(code: Code) -> Iterator[Site]:
    """E251: spaces around the equals sign of an argument."""
    for token in code.tokens:
        joined = token.gap == token.after.gap == ""
        if token.text == "=" and token.opener and joined:
            yield replace(token.start, token.end, " = ")


def comment_start(code: Code) -> Iterator[Site]:
    """E265: a comment on its own line that does not begin with "# "."""
    for token in code.tokens:
        if (
            token.kind == "comment"
            and token.before.kind in ("newline", "edge")
            and token.text.startswith("# ")
            and token.text[2:3].strip()
            and token.text[2] not in "!#:"
        ):
            yield replace(token.start, token.start + 2, "#")


def after_keyword(token: Token) -> bool:
    """E271: several spaces after a keyword."""
    blank = token.kind in ("comment", "backslash")
    return token.before.text in KEYWORDS and not blank


def before_keyword(token: Token) -> bool:
    """E272: several spaces before a keyword."""
    return token.text in KEYWORDS and ends_operand(token.before)


def keyword_bracket(code: Code) -> Iterator[Site]:
    """E275: `if(condition):`, brackets added where there are none."""
    for line in code.lines:
        head, colon = line.head, line.tail
        if (
            head.text in ("if", "elif", "while")
            and colon.text == ":"
            and head.after.gap == " "
        ):
            yield (
                Edit(head.end, head.end + 1, "("),
                Edit(colon.start, colon.start, ")"),
            )


def trailing_blank(code: Code) -> Iterator[Site]:
    """W291: a space at the end of a line."""
    for token in code.tokens:
        empty = token.before.kind in ("newline", "edge")
        if token.kind == "newline" and not empty:
            yield insert(token.start, " ")


def blank_line_blanks(code: Code) -> Iterator[Site]:
    """W293: a blank line that holds the indentation of the next line."""
    for line in code.lines:
        end = line.head.before
        if line.indent and end.kind == end.before.kind == "newline":
            yield insert(end.start, line.indent)
