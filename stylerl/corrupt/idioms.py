"""Violations of idiom: comparisons, except, lambdas.

As in spacing.py, each function yields the sites of one rule.  These
edits change the syntax tree; most of them keep the meaning.
"""

import re
from collections.abc import Iterator

from stylerl.corrupt.tokens import (
    Code,
    Edit,
    Site,
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
