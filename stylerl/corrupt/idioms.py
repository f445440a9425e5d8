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


def none_comparison(code: Code) -> Iterator[Site]:
    """E711: `== None` for `is None`, `!= None` for `is not None`."""
    yield from _identity_as_equality(code, frozenset(("None",)))


def truth_comparison(code: Code) -> Iterator[Site]:
    """E712: `== True` for the truth of a name in a condition."""
    yield from _identity_as_equality(code, frozenset(("True", "False")))
    for line in code.lines():
        words = code.tokens[line.first : line.last]
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


def _identity_as_equality(
    code: Code, constants: frozenset[str]
) -> Iterator[Site]:
    tokens = code.tokens
    for i in range(1, len(tokens)):
        if tokens[i].text not in constants:
            continue
        if tokens[i - 1].text == "is":
            yield replace(tokens[i - 1].start, tokens[i - 1].end, "==")
        elif tokens[i - 1].text == "not" and tokens[i - 2].text == "is":
            yield replace(tokens[i - 2].start, tokens[i - 1].end, "!=")


def not_in(code: Code) -> Iterator[Site]:
    """E713: `not x in y` for `x not in y`."""
    yield from _negated_test(code, ("not", "in"), " in")


def not_is(code: Code) -> Iterator[Site]:
    """E714: `not x is y` for `x is not y`."""
    yield from _negated_test(code, ("is", "not"), " is")


def _negated_test(
    code: Code, words: tuple[str, str], positive: str
) -> Iterator[Site]:
    """Move the `not` of a test whose left side is one dotted name."""
    tokens = code.tokens
    for i in range(1, len(tokens) - 1):
        if (tokens[i].text, tokens[i + 1].text) != words:
            continue
        # Back to the start of the dotted name, in steps of ".name".
        first = i - 1
        while first >= 2 and tokens[first - 1].text == ".":
            first -= 2
        before = tokens[first - 1].text if first else ""
        opens = ("if", "elif", "while", "and", "or", "return", "(", "=")
        if tokens[first].kind == "name" and before in opens:
            start = tokens[first].start
            yield (
                Edit(start, start, "not "),
                Edit(tokens[i - 1].end, tokens[i + 1].end, positive),
            )


def bare_except(code: Code) -> Iterator[Site]:
    """E722: `except:` for `except Exception:`."""
    for line in code.lines():
        words = [w.text for w in code.tokens[line.first : line.last]]
        if words in (
            ["except", "Exception", ":"],
            ["except", "BaseException", ":"],
        ):
            first = code.tokens[line.first]
            name = code.tokens[line.first + 1]
            yield replace(first.end, name.end, "")


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
    for line, after in pairwise(code.lines()):
        first, second = code.tokens[line.first], code.tokens[after.first]
        last = code.tokens[line.last - 1]
        if (
            first.text == second.text == "import"
            and line.indent == after.indent
            and last.kind == "name"
        ):
            yield replace(last.end, second.end, ",")


def late_import(code: Code) -> Iterator[Site]:
    """E402: the last of a file's imports, moved below the line after it."""
    for line, after in pairwise(code.lines()):
        end, stop = code.tokens[line.last].end, code.tokens[after.last].end
        if (
            code.tokens[line.first].text in ("import", "from")
            and not line.indent
            and code.tokens[after.first + 1].text == "="
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
    for line in code.lines():
        name, equals = code.tokens[line.first : line.first + 2]
        if name.kind == "name" and equals.text == "=":
            yield from _renamed(code, name.text)


@with_options
def ambiguous_definition(code: Code, keyword: str) -> Iterator[Site]:
    """E742, E743: a local class or function called `l` throughout."""
    for line in code.lines():
        first, name = code.tokens[line.first : line.first + 2]
        if first.text == keyword:
            yield from _renamed(code, name.text)


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
    uses = []
    if name in code.text[: code.start]:
        return []
    for i, word in enumerate(code.tokens):
        if word.kind == "string" and name in word.text:
            return []
        if word.kind == "name" and word.text == name:
            argument = word.opener >= 0 and code.tokens[i + 1].text == "="
            if code.tokens[i - 1].text == "." or argument:
                return []
            uses.append(word)
    return uses


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
