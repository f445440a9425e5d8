"""Violations of idiom: comparisons, imports, except, names, escapes.

As in spacing.py, each function yields the sites of one rule.  These
edits change the syntax tree; most of them keep the meaning.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.tokens import (
    Code,
    Edit,
    Site,
    Token,
    replace,
    with_options,
)


@with_options
def constant_comparison(code: Code, *constants: str) -> Iterator[Site]:
    """E711: `== None` for `is None`, `!= None` for `is not None`."""
    for token in code.tokens:
        if token.text not in constants:
            continue
        word = token.before
        if word.text == "is":
            yield replace(word.start, word.end, "==")
        elif word.text == "not" and word.before.text == "is":
            yield replace(word.before.start, word.end, "!=")


def truth_comparison(code: Code) -> Iterator[Site]:
    """E712: `== True` for `is True`, or the truth of a name."""
    yield from constant_comparison("True", "False")(code)
    for line in code.lines:
        words = line.words
        if (
            words[0].text not in ("if", "elif", "while")
            or words[-1].text != ":"
            or words[0].end + 1 != words[1].start
        ):
            continue
        negated = words[1].text == "not"
        operand = words[2:-1] if negated else words[1:-1]
        if operand and all(
            w.kind == "name" if i % 2 == 0 else w.text == "."
            for i, w in enumerate(operand)
        ):
            value = "False" if negated else "True"
            yield (
                Edit(words[1].start, operand[0].start, ""),
                Edit(words[-1].start, words[-1].start, f" == {value}"),
            )


@with_options
def negated_test(code: Code, test: str, positive: str) -> Iterator[Site]:
    """E713, E714: `not x in y` for `x not in y`; `not x is y`.

    The left side is one dotted name.
    """
    opens = ("if", "elif", "while", "and", "or", "return", "(", "=")
    for token in code.tokens:
        if f"{token.text} {token.after.text}" != test:
            continue
        # Back to the start of the dotted name, in steps of ".name".
        first = token.before
        while first.before.text == ".":
            first = first.before.before
        if first.kind == "name" and first.before.text in opens:
            yield (
                Edit(first.start, first.start, "not "),
                Edit(token.before.end, token.after.end, f" {positive}"),
            )


def bare_except(code: Code) -> Iterator[Site]:
    """E722: `except:` for `except Exception:`."""
    for line in code.lines:
        words = [word.text for word in line.words]
        if words in (
            ["except", "Exception", ":"],
            ["except", "BaseException", ":"],
        ):
            yield replace(line.head.end, line.head.after.end, "")


_SMALL_FUNCTION = re.compile(
    r"^(?P<indent>[ ]*)def (?P<name>\w+)\((?P<arguments>[^():\n]*)\):\n"
    r"(?P=indent)    return (?P<value>[^\n#]*)\n(?!(?P=indent) )",
    re.MULTILINE,
)


def lambda_assignment(code: Code) -> Iterator[Site]:
    """E731: a lambda bound to a name, for a function of one return."""
    for match in _SMALL_FUNCTION.finditer(code.text, code.start):
        indent, name, arguments, value = match.groups()
        # A decorated function cannot become an assignment.
        above = code.text[: match.start()].rstrip().rpartition("\n")[2]
        if above.lstrip().startswith("@"):
            continue
        head = f"lambda {arguments}" if arguments else "lambda"
        line = f"{indent}{name} = {head}: {value}\n"
        yield (Edit(*match.span(), line),)


def joined_imports(code: Code) -> Iterator[Site]:
    """E401: two imports on one line."""
    for line, after in pairwise(code.lines):
        if (
            line.head.text == after.head.text == "import"
            and line.indent == after.indent
            and line.tail.kind == "name"
        ):
            yield replace(line.tail.end, after.head.end, ",")


def late_import(code: Code) -> Iterator[Site]:
    """E402: the last of a file's imports, moved below the line after it."""
    for line, after in pairwise(code.lines):
        end, stop = line.newline.end, after.newline.end
        if (
            line.head.text in ("import", "from")
            and not line.indent
            and after.head.after.text == "="
        ):
            moved = code.text[line.start : end]
            yield (Edit(line.start, end, ""), Edit(stop, stop, moved))


def type_comparison(code: Code) -> Iterator[Site]:
    """E721: `type(x) == T` for `isinstance(x, T)`, x and T single names."""
    words = code.tokens
    for i in range(len(words) - 5):
        call = [word.text for word in words[i : i + 6]]
        if (
            call[0] == "isinstance"
            and call[1:6:2] == ["(", ",", ")"]
            and words[i + 2].kind == words[i + 4].kind == "name"
            and words[i - 1].text in ("if", "elif", "and", "or", "return")
        ):
            new = f"type({call[2]}) == {call[4]}"
            yield replace(words[i].start, words[i + 5].end, new)


def ambiguous_name(code: Code) -> Iterator[Site]:
    """E741: a local name called `l` throughout."""
    for line in code.lines:
        if line.head.kind == "name" and line.head.after.text == "=":
            yield from _renamed(code, line.head.text)


@with_options
def ambiguous_definition(code: Code, keyword: str) -> Iterator[Site]:
    """E742, E743: a local class or function called `l` throughout."""
    for line in code.lines:
        if line.head.text == keyword:
            yield from _renamed(code, line.head.after.text)


def _renamed(code: Code, name: str) -> Iterator[Site]:
    """All uses of a name become `l`, where nothing else is called so."""
    if any(word.text == "l" for word in code.tokens):
        return
    uses = _plain_uses(code, name)
    if uses:
        yield tuple(Edit(use.start, use.end, "l") for use in uses)


def _plain_uses(code: Code, name: str) -> list[Token]:
    """The uses of a local name; none where one may be something else.

    That is: an attribute or a keyword argument of that name, a mention in
    a string, or a use before the body.
    """
    uses = [w for w in code.tokens if w.kind == "name" and w.text == name]
    hidden = name in code.text[: code.start] or any(
        word.kind == "string" and name in word.text for word in code.tokens
    )
    other = any(
        use.before.text == "." or (use.opener and use.after.text == "=")
        for use in uses
    )
    return [] if hidden or other else uses


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN = frozenset("\n\\'\"abfnrtvxuNU01234567")


def invalid_escape(code: Code) -> Iterator[Site]:
    """W605: a regular expression's escape in a string that is not raw."""
    for word in code.tokens:
        if word.kind == "string" and word.text[0] in "rR":
            escaped = _ESCAPE.findall(word.text)
            # Without its r, the string must keep its meaning.
            if escaped and _KNOWN.isdisjoint(escaped):
                yield replace(word.start, word.start + 1, "")
