"""Violations that pyflakes finds: what is unused, repeated or misformatted.

As in spacing.py, each function yields the sites of one rule.  All of them
change the syntax tree.  Rules without a function, and why:

- F402, F404, F406, F407, F621, F622, F633, F701, F702, F704, F706, F707,
  F823, F824, F831: no clean code is a small edit away from these mistakes;
- F403, F405: a star import breaks both, or leaves F401;
- F501-F506, F508, F521, F522: formats that snippets hardly have; the
  formats' other rules (F507, F509, F523-F525) represent them;
- F542, F602, F708, F709, F851: syntax of a later Python, or a twin (F601);
- F721, F722: about code inside strings;
- F821, F822: names that a snippet cut from its file cannot define.
"""

from collections.abc import Iterator
from itertools import pairwise

from stylerl.corrupt.tokens import (
    CLOSING,
    KEYWORDS,
    Code,
    Edit,
    Site,
    insert,
    replace,
)

MODULES = ("os", "re", "sys", "json", "time")
NAMES = ("result", "value", "unused")


def _new(code: Code, names: tuple[str, ...]) -> str | None:
    """The first of some names that the text does not hold."""
    return next((name for name in names if name not in code.text), None)


def _tops(code: Code) -> Iterator[tuple[int, str]]:
    """Where a function may get a new first line: offset and indentation."""
    lines = code.lines()
    heads = [line for line in lines if code.tokens[line.first].text == "def"]
    tops = [after for line, after in pairwise(lines) if line in heads]
    for line in [*lines[:1], *tops]:
        if line.indent and code.tokens[line.first].kind != "string":
            yield line.start, line.indent


def unused_import(code: Code) -> Iterator[Site]:
    """F401: an import that nothing uses, as a function's first line."""
    name = _new(code, MODULES)
    for start, indent in _tops(code):
        if name:
            yield insert(start, f"{indent}import {name}\n")


def unused_annotation(code: Code) -> Iterator[Site]:
    """F842: a local name that is annotated and never used."""
    name = _new(code, NAMES)
    for start, indent in _tops(code):
        if name:
            yield insert(start, f"{indent}{name}: int\n")


def unused_variable(code: Code) -> Iterator[Site]:
    """F841: the result of a call bound to a name that nothing uses."""
    name = _new(code, NAMES)
    for line in code.lines():
        words = code.tokens[line.first : line.last]
        free = [word.text for word in words if word.opener < 0]
        if (
            name
            and line.indent
            and words[0].kind == "name"
            and words[0].text not in KEYWORDS
            and free[1:2] in (["."], ["("])
            and free[-1] == ")"
            and not any(text[-1] in "=:" for text in free)
        ):
            yield insert(words[0].start, f"{name} = ")


def repeated_import(code: Code) -> Iterator[Site]:
    """F811: an import repeated at once."""
    for line in code.lines():
        if code.tokens[line.first].text in ("import", "from"):
            end = code.tokens[line.last].end
            yield insert(end, code.text[line.start : end])


def empty_fstring(code: Code) -> Iterator[Site]:
    """F541: an f-string without a placeholder."""
    words = code.tokens
    for i in range(1, len(words)):
        alone = words[i - 1].kind in ("newline", "string")
        if (
            words[i].text[0] in "'\""
            and not alone
            and not {"{", "}"} & set(words[i].text)
        ):
            yield insert(words[i].start, "f")


def repeated_key(code: Code) -> Iterator[Site]:
    """F601: a key that occurs twice in a dict, with different values."""
    words = code.tokens
    for i in range(1, len(words) - 1):
        opener = words[i].opener
        if (
            words[i].kind in ("string", "number")
            and words[i + 1].text == ":"
            and words[opener].text == "{"
            and opener >= 0
            and not any(  # of a comprehension there is one key
                word.text == "for" and word.opener == opener for word in words
            )
        ):
            place = words[i].start
            yield insert(place, f"{words[i].text}: ..., ")


def asserted_tuple(code: Code) -> Iterator[Site]:
    """F631: an assertion and its message in brackets, which never fails."""
    for line in code.lines():
        words = code.tokens[line.first : line.last]
        if words[0].text == "assert" and any(
            word.text == "," and word.opener < 0 for word in words
        ):
            end = words[-1].end
            yield (
                Edit(words[1].start, words[1].start, "("),
                Edit(end, end, ")"),
            )


def literal_identity(code: Code) -> Iterator[Site]:
    """F632: `is` for the equality with a string or a number."""
    for before, after in pairwise(code.tokens):
        new = {"==": "is", "!=": "is not"}.get(before.text)
        if new and after.kind in ("string", "number"):
            yield replace(before.start, before.end, new)


def condition_tuple(code: Code) -> Iterator[Site]:
    """F634: a condition with a comma, which always holds."""
    for line in code.lines():
        words = code.tokens[line.first : line.last]
        if words[0].text in ("if", "elif") and words[-1].text == ":":
            start, end = words[1].start, words[-1].start
            yield (Edit(start, start, "("), Edit(end, end, ",)"))


def raised_constant(code: Code) -> Iterator[Site]:
    """F901: `raise NotImplemented` for `raise NotImplementedError`."""
    for before, word in pairwise(code.tokens):
        if before.text == "raise" and word.text == "NotImplementedError":
            yield replace(word.start, word.end, "NotImplemented")


def _calls(
    code: Code, before: tuple[str, ...]
) -> Iterator[tuple[int, int, int]]:
    """Strings that a call or a percent sign formats.

    The indices of the string, of the bracket's first token, and of the one
    that closes it.
    """
    words = code.tokens
    for i, word in enumerate(words):
        first = i + 1 + len(before)
        between = tuple(w.text for w in words[i + 1 : first])
        if word.kind != "string" or between != before:
            continue
        # The first closing bracket that is as deep as the opening one.
        depth = words[first - 1].opener
        for last in range(first, len(words)):
            if words[last].opener == depth and words[last].text in CLOSING:
                yield i, first, last
                break


FORMAT = (".", "format", "(")
PERCENT = ("%", "(")


def extra_argument(code: Code) -> Iterator[Site]:
    """F523: `.format` gets an argument that its string does not name."""
    for _, first, last in _calls(code, FORMAT):
        if first < last and code.tokens[last - 1].text != ",":
            place = code.tokens[last - 1].end
            yield insert(place, ", None")


def missing_argument(code: Code) -> Iterator[Site]:
    """F524: `.format` lacks its last argument."""
    for _, first, last in _calls(code, FORMAT):
        inside = range(first, last)
        depth = code.tokens[first].opener
        commas = [
            i
            for i in inside
            if code.tokens[i].text == "," and code.tokens[i].opener == depth
        ]
        cut = code.tokens[commas[-1] if commas else first].start
        if first < last:
            yield replace(cut, code.tokens[last - 1].end, "")


def mixed_numbering(code: Code) -> Iterator[Site]:
    """F525: a format that numbers one of its places and not the others."""
    for i, _, _ in _calls(code, FORMAT):
        word = code.tokens[i]
        second = word.text.find("{}", word.text.find("{}") + 2)
        if word.text.count("{}") > 1:
            place = word.start + second + 1
            yield insert(place, "1")


def extra_value(code: Code) -> Iterator[Site]:
    """F507: more values than places in a percent format."""
    for _, first, last in _calls(code, PERCENT):
        if first < last and code.tokens[last - 1].text != ",":
            place = code.tokens[last - 1].end
            yield insert(place, ", None")


def unknown_format(code: Code) -> Iterator[Site]:
    """F509: a percent format of a kind that does not exist."""
    for word, after in pairwise(code.tokens):
        place = word.text.find("%s")
        if word.kind == "string" and after.text == "%" and place >= 0:
            start = word.start + place + 1
            yield replace(start, start + 1, "y")
