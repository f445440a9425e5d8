"""Violations inside a line: spaces, comments, trailing blanks.

Each function yields the sites of one pycodestyle rule in well-formatted
code; a site is the set of edits that violates the rule there once.
"""

from collections.abc import Callable, Iterator

from stylerl.corrupt.lexemes import (
    CLOSING,
    KEYWORDS,
    OPENING,
    Code,
    Edit,
    Lexeme,
    Site,
    ends_operand,
)

Sites = Callable[[Code], Iterator[Site]]

COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", ":="))
ASSIGNMENTS = frozenset(
    (
        "=",
        "+=",
        "-=",
        "*=",
        "/=",
        "%=",
        "//=",
        "**=",
        "&=",
        "|=",
        "^=",
        ">>=",
        "<<=",
        "@=",
    )
)
ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "**", "@"))
BITWISE = frozenset(("&", "|", "^", "<<", ">>"))


def _binary(code: Code, words: frozenset[str]) -> Iterator[int]:
    """Indices of binary operators among `words` with one space each side."""
    lexemes = code.lexemes
    for i in range(1, len(lexemes) - 1):
        if (
            lexemes[i].text in words
            and lexemes[i].kind == "operator"
            and ends_operand(lexemes[i - 1])
            and code.gap(i) == " "
            and code.gap(i + 1) == " "
            and lexemes[i + 1].kind != "backslash"
        ):
            yield i


def unspaced(words: frozenset[str]) -> Sites:
    """E225, E226, E227, E228: no space around a binary operator."""

    def sites(code: Code) -> Iterator[Site]:
        for i in _binary(code, words):
            before, operator, after = code.lexemes[i - 1 : i + 2]
            yield (
                Edit(before.end, operator.start, ""),
                Edit(operator.end, after.start, ""),
            )

    return sites


def before_operator(blank: str) -> Sites:
    """E221, E223: several spaces or a tab before an operator."""

    def sites(code: Code) -> Iterator[Site]:
        for i in _binary(code, COMPARISONS | ASSIGNMENTS | ARITHMETIC):
            yield (
                Edit(code.lexemes[i - 1].end, code.lexemes[i].start, blank),
            )

    return sites


def after_operator(blank: str) -> Sites:
    """E222, E224: several spaces or a tab after an operator."""

    def sites(code: Code) -> Iterator[Site]:
        for i in _binary(code, COMPARISONS | ASSIGNMENTS | ARITHMETIC):
            yield (
                Edit(code.lexemes[i].end, code.lexemes[i + 1].start, blank),
            )

    return sites


def after_opening(code: Code) -> Iterator[Site]:
    """E201: a space behind an opening bracket."""
    for i, lexeme in enumerate(code.lexemes[:-1]):
        after = code.lexemes[i + 1]
        if (
            lexeme.text in OPENING
            and code.gap(i + 1) == ""
            and after.text not in CLOSING
            and after.kind in ("name", "number", "string", "operator")
        ):
            yield (Edit(lexeme.end, lexeme.end, " "),)


def before_closing(code: Code) -> Iterator[Site]:
    """E202: a space before a closing bracket."""
    for i, lexeme in enumerate(code.lexemes):
        if (
            lexeme.text in CLOSING
            and i
            and code.gap(i) == ""
            and code.lexemes[i - 1].text not in OPENING
            and code.lexemes[i - 1].text != ","
        ):
            yield (Edit(lexeme.start, lexeme.start, " "),)


def before_punctuation(code: Code) -> Iterator[Site]:
    """E203: a space before a comma or colon."""
    for i, lexeme in enumerate(code.lexemes):
        if (
            lexeme.text in (",", ":")
            and i
            and code.gap(i) == ""
            and code.lexemes[i - 1].text not in ("[", ":", ",", "(", "{")
            and not _in_subscript(code, lexeme)
        ):
            yield (Edit(lexeme.start, lexeme.start, " "),)


def _in_subscript(code: Code, lexeme: Lexeme) -> bool:
    return (
        lexeme.text == ":"
        and lexeme.opener >= 0
        and code.lexemes[lexeme.opener].text == "["
    )


def after_punctuation(code: Code) -> Iterator[Site]:
    """E231: no space behind a comma or colon."""
    for i, lexeme in enumerate(code.lexemes[:-1]):
        after = code.lexemes[i + 1]
        if (
            lexeme.text in (",", ":")
            and code.gap(i + 1) == " "
            and after.kind not in ("comment", "backslash")
            and not _in_subscript(code, lexeme)
        ):
            yield (Edit(lexeme.end, after.start, ""),)


def after_comma(blank: str) -> Sites:
    """E241, E242: several spaces or a tab behind a comma or colon."""

    def sites(code: Code) -> Iterator[Site]:
        for i, lexeme in enumerate(code.lexemes[:-1]):
            after = code.lexemes[i + 1]
            if (
                lexeme.text in (",", ":")
                and code.gap(i + 1) == " "
                and after.kind not in ("comment", "backslash")
                and not _in_subscript(code, lexeme)
            ):
                yield (Edit(lexeme.end, after.start, blank),)

    return sites


def before_call(code: Code) -> Iterator[Site]:
    """E211: a space between a name and its bracket."""
    for i, lexeme in enumerate(code.lexemes):
        before = code.lexemes[i - 1]
        if (
            lexeme.text in ("(", "[")
            and i
            and code.gap(i) == ""
            and before.kind == "name"
            and before.text not in KEYWORDS | {"print", "match", "case"}
        ):
            yield (Edit(before.end, lexeme.start, " "),)


def keyword_equals(code: Code) -> Iterator[Site]:
    """E251: spaces around the equals sign of an argument."""
    for i, lexeme in enumerate(code.lexemes):
        if (
            lexeme.text == "="
            and lexeme.opener >= 0
            and code.gap(i) == ""
            and code.gap(i + 1) == ""
            and not _annotated(code, i)
        ):
            yield (Edit(lexeme.start, lexeme.end, " = "),)


def annotated_default(code: Code) -> Iterator[Site]:
    """E252: no spaces around the default of an annotated argument."""
    for i, lexeme in enumerate(code.lexemes):
        if (
            lexeme.text == "="
            and lexeme.opener >= 0
            and code.gap(i) == code.gap(i + 1) == " "
            and _annotated(code, i)
        ):
            after = code.lexemes[i + 1]
            yield (Edit(code.lexemes[i - 1].end, after.start, "="),)


def _annotated(code: Code, index: int) -> bool:
    """Whether a colon stands between the argument's start and `index`."""
    opener = code.lexemes[index].opener
    for i in range(index - 1, opener, -1):
        lexeme = code.lexemes[i]
        if lexeme.opener == opener and lexeme.text in (",", ":"):
            return lexeme.text == ":"
    return False


def before_comment(code: Code) -> Iterator[Site]:
    """E261: one space before an inline comment."""
    for i, lexeme in enumerate(code.lexemes):
        if lexeme.kind == "comment" and code.gap(i) == "  ":
            yield (Edit(lexeme.start - 1, lexeme.start, ""),)


def comment_start(prefix: str, inline: bool) -> Sites:
    """E262, E265, E266: a comment that does not begin with "# "."""

    def sites(code: Code) -> Iterator[Site]:
        for i, lexeme in enumerate(code.lexemes):
            after_code = i > 0 and code.lexemes[i - 1].kind != "newline"
            if (
                lexeme.kind == "comment"
                and after_code == inline
                and lexeme.text.startswith("# ")
                and lexeme.text[2:3].strip()
                and lexeme.text[2] not in "!#:"
            ):
                yield (Edit(lexeme.start, lexeme.start + 2, prefix),)

    return sites


def after_keyword(blank: str) -> Sites:
    """E271, E273: several spaces or a tab behind a keyword."""

    def sites(code: Code) -> Iterator[Site]:
        for i, lexeme in enumerate(code.lexemes[:-1]):
            if (
                lexeme.kind == "name"
                and lexeme.text in KEYWORDS
                and code.gap(i + 1) == " "
                and code.lexemes[i + 1].kind not in ("comment", "backslash")
            ):
                yield (Edit(lexeme.end, lexeme.end + 1, blank),)

    return sites


def before_keyword(blank: str) -> Sites:
    """E272, E274: several spaces or a tab before a keyword."""

    def sites(code: Code) -> Iterator[Site]:
        for i, lexeme in enumerate(code.lexemes):
            if (
                lexeme.kind == "name"
                and lexeme.text in KEYWORDS
                and i
                and code.gap(i) == " "
                and ends_operand(code.lexemes[i - 1])
            ):
                yield (Edit(lexeme.start - 1, lexeme.start, blank),)

    return sites


def keyword_bracket(code: Code) -> Iterator[Site]:
    """E275: `if(condition):`, brackets added where there are none."""
    for line in code.lines():
        head = code.lexemes[line.first]
        colon = code.lexemes[line.last - 1]
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
    for i, lexeme in enumerate(code.lexemes):
        if (
            lexeme.kind == "newline"
            and i
            and code.lexemes[i - 1].kind != "newline"
        ):
            yield (Edit(lexeme.start, lexeme.start, " "),)


def blank_line_blanks(code: Code) -> Iterator[Site]:
    """W293: a blank line that holds the indentation of the next line."""
    for line in code.lines():
        before = line.first - 1
        if line.indent and before > 0:
            empty = code.lexemes[before - 1].kind == "newline"
            if empty and code.lexemes[before].kind == "newline":
                place = code.lexemes[before].start
                yield (Edit(place, place, line.indent),)


def after_decorator(code: Code) -> Iterator[Site]:
    """E204: a space behind the decorator's sign."""
    for line in code.lines():
        sign = code.lexemes[line.first]
        if sign.text == "@" and code.gap(line.first + 1) == "":
            yield (Edit(sign.end, sign.end, " "),)
