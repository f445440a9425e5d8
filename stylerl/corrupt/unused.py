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
    Token,
    insert,
    replace,
    with_options,
)

MODULES = ("os", "re", "sys", "json", "time")
NAMES = ("result", "value", "unused")


def _new(code: Code, names: tuple[str, ...]) -> str | None:
    """The first of some names that the text does not hold."""
    return next((name for name in names if name not in code.text), None)


@with_options
def first_line(
    code: Code, names: tuple[str, ...], statement: str
) -> Iterator[Site]:
    """F401, F842: a first line that imports, or annotates, what is not used.

    It gets the first of some names that the text does not hold.
    """
    name = _new(code, names)
    bodies = [b for head, b in pairwise(code.lines) if head.head.text == "def"]
    for line in [*code.lines[:1], *bodies]:
        if name and line.indent and line.head.kind != "string":
            new = f"{line.indent}{statement.format(name)}\n"
            yield insert(line.start, new)


def unused_variable(code: Code) -> Iterator[Site]:
    """F841: the result of a call bound to a name that nothing uses."""
    name = _new(code, NAMES)
    for line in code.lines:
        free = [word.text for word in line.words if not word.opener]
        if (
            name
            and line.indent
            and line.head.kind == "name"
            and line.head.text not in KEYWORDS
            and free[1:2] in (["."], ["("])
            and free[-1] == ")"
            and not any(text[-1] in "=:" for text in free)
        ):
            yield insert(line.head.start, f"{name} = ")


def repeated_import(code: Code) -> Iterator[Site]:
    """F811: an import repeated at once."""
    for line in code.lines:
        if line.head.text in ("import", "from"):
            end = line.newline.end
            yield insert(end, code.text[line.start : end])


def empty_fstring(code: Code) -> Iterator[Site]:
    """F541: an f-string without a placeholder."""
    for word in code.tokens:
        alone = word.before.kind in ("newline", "string", "edge")
        plain = word.text[0] in "'\"" and not {"{", "}"} & set(word.text)
        if plain and not alone:
            yield insert(word.start, "f")


def repeated_key(code: Code) -> Iterator[Site]:
    """F601: a key that occurs twice in a dict, with different values."""
    # of a comprehension there is one key
    loops = {id(word.opener) for word in code.tokens if word.text == "for"}
    for word in code.tokens:
        if (
            word.kind in ("string", "number")
            and word.after.text == ":"
            and word.opener
            and word.opener.text == "{"
            and id(word.opener) not in loops
        ):
            yield insert(word.start, f"{word.text}: ..., ")


def asserted_tuple(code: Code) -> Iterator[Site]:
    """F631: an assertion and its message in brackets, which never fails."""
    for line in code.lines:
        if line.head.text == "assert" and any(
            word.text == "," and not word.opener for word in line.words
        ):
            start, end = line.head.after.start, line.tail.end
            yield (Edit(start, start, "("), Edit(end, end, ")"))


def literal_identity(code: Code) -> Iterator[Site]:
    """F632: `is` for the equality with a string or a number."""
    for word in code.tokens:
        new = {"==": "is", "!=": "is not"}.get(word.text)
        if new and word.after.kind in ("string", "number"):
            yield replace(word.start, word.end, new)


def condition_tuple(code: Code) -> Iterator[Site]:
    """F634: a condition with a comma, which always holds."""
    for line in code.lines:
        if line.head.text in ("if", "elif") and line.tail.text == ":":
            start, end = line.head.after.start, line.tail.start
            yield (Edit(start, start, "("), Edit(end, end, ",)"))


def raised_constant(code: Code) -> Iterator[Site]:
    """F901: `raise NotImplemented` for `raise NotImplementedError`."""
    for word in code.tokens:
        name = word.text == "NotImplementedError"
        if name and word.before.text == "raise":
            yield replace(word.start, word.end, "NotImplemented")


def _calls(
    code: Code, before: tuple[str, ...]
) -> Iterator[tuple[Token, list[Token]]]:
    """Strings that a call or a percent sign formats, and the arguments."""
    words = code.tokens
    for i, word in enumerate(words):
        first = i + 1 + len(before)
        between = tuple(w.text for w in words[i + 1 : first])
        if word.kind != "string" or between != before:
            continue
        # The first closing bracket that is as deep as the opening one.
        depth = words[first - 1].opener
        for last in range(first, len(words)):
            if words[last].opener is depth and words[last].text in CLOSING:
                yield word, words[first:last]
                break


FORMAT = (".", "format", "(")
PERCENT = ("%", "(")


@with_options
def extra_value(code: Code, before: tuple[str, ...]) -> Iterator[Site]:
    """F507, F523: one value more than the format has places for."""
    for _, arguments in _calls(code, before):
        if arguments and arguments[-1].text != ",":
            yield insert(arguments[-1].end, ", None")


def missing_argument(code: Code) -> Iterator[Site]:
    """F524: `.format` lacks its last argument."""
    for _, arguments in _calls(code, FORMAT):
        commas = [
            word
            for word in arguments
            if word.text == "," and word.opener is arguments[0].opener
        ]
        if arguments:
            cut = commas[-1] if commas else arguments[0]
            yield replace(cut.start, arguments[-1].end, "")


def mixed_numbering(code: Code) -> Iterator[Site]:
    """F525: a format that numbers one of its places and not the others."""
    for word, _ in _calls(code, FORMAT):
        second = word.text.find("{}", word.text.find("{}") + 2)
        if word.text.count("{}") > 1:
            yield insert(word.start + second + 1, "1")


def unknown_format(code: Code) -> Iterator[Site]:
    """F509: a percent format of a kind that does not exist."""
    for word in code.tokens:
        place = word.text.find("%s")
        if word.kind == "string" and word.after.text == "%" and place >= 0:
            start = word.start + place + 1
            yield replace(start, start + 1, "y")
