"""Python source as tokens with offsets, for corruptions to edit by.

One regular expression reads the source, because `tokenize` gives rows and
columns, refuses fragments, and is slower.  Strings are opaque, f-strings
too.  A source that this expression misreads (nested quotes in f-strings
of Python 3.12) can only lead to a changed syntax tree, and such edits are
dropped (`same_program`).
"""

import functools
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OPENING = frozenset("([{")
CLOSING = frozenset(")]}")
CONSTANTS = frozenset(("None", "True", "False"))
KEYWORDS = frozenset(keyword.kwlist) - CONSTANTS

_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\f]+)
  | (?P<comment>\#[^\n]*)
  | (?P<string>[rRbBuUfF]{0,2}(?:
        \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
      | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'))
  | (?P<number>0[xXbBoO][\da-fA-F_]+
      | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?)
  | (?P<name>\w+)
  | (?P<newline>\n)
  | (?P<backslash>\\\n)
  | (?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|\*\*|//|>>|<<
      |[-+*/%&|^=<>!@]=|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(eq=False, slots=True)
class Token:
    """A piece of source, blanks left out, between its neighbours.

    A token of the kind `edge`, without text, is before the first and after
    the last.
    """

    kind: str  # comment, string, number, name, newline, backslash, operator
    text: str
    start: int  # offset of its first character
    end: int  # offset after its last character
    gap: str  # what is between it and the token before
    opener: "Token | None"  # the innermost open bracket around it
    before: "Token" = field(init=False)
    after: "Token" = field(init=False)


class Line(NamedTuple):
    """A logical line, or a line that holds a comment alone."""

    start: int  # offset of its first physical line
    indent: str
    words: list[Token]  # newlines and backslashes inside it included
    head: Token  # the first of them
    tail: Token  # the last
    newline: Token  # that ends the line


class Code(NamedTuple):
    """Tokens of `text[start:]` with offsets into `text`."""

    text: str
    start: int
    tokens: list[Token]
    lines: list[Line]  # in order, blank lines left out


class Edit(NamedTuple):
    """Replace `text[start:end]` by `new`."""

    start: int
    end: int
    new: str


Site = tuple[Edit, ...]  # the edits that together make one violation


Find = Callable[[Code], Iterator[Site]]  # the sites of a rule


def gaps(holds: Callable[[Token], bool], old: str, new: str) -> Find:
    """The rule that makes the gap `old` before some tokens `new`.

    The tokens are those of which `holds` does.
    """

    def find(code: Code) -> Iterator[Site]:
        for token in code.tokens:
            if token.gap == old and holds(token):
                yield replace(token.start - len(old), token.start, new)

    return find


def insert(place: int, new: str) -> Site:
    """The site that one insertion makes."""
    return (Edit(place, place, new),)


def replace(start: int, end: int, new: str) -> Site:
    """The site that one replacement makes."""
    return (Edit(start, end, new),)


@functools.lru_cache(maxsize=4)
def read(text: str, start: int = 0) -> Code:
    """Split `text[start:]` into tokens; `start` begins a logical line.

    The last few results are cached, as every rule reads the same text;
    treat them as read-only.
    """
    last = edge = Token("edge", "", start, start, "", None)
    tokens: list[Token] = []
    openers: list[Token] = []
    for match in _TOKEN.finditer(text, start):
        kind = match.lastgroup
        if kind is None or kind == "blank":
            continue
        # A bracket of either kind counts as outside of its own pair.
        word = match.group()
        if word in CLOSING and openers:
            openers.pop()
        opener = openers[-1] if openers else None
        gap = text[last.end : match.start()]
        token = Token(kind, word, *match.span(), gap, opener)
        if word in OPENING:
            openers.append(token)
        tokens.append(token)
        last.after, token.before, last = token, last, token
    last.after, edge.before = edge, last
    return Code(text, start, tokens, list(_lines(text, start, tokens)))


def apply(text: str, sites: Sequence[Site]) -> str:
    """`text` with the edits of all sites; overlapping edits are left out."""
    pieces = []
    position = 0
    # In the order of the text; of two that overlap, the first is applied.
    for edit in sorted(edit for site in sites for edit in site):
        if edit.start >= position:
            pieces += [text[position : edit.start], edit.new]
            position = edit.end
    return "".join([*pieces, text[position:]])


def ends_operand(token: Token) -> bool:
    """Whether an operator after `token` would be a binary one."""
    if token.kind == "name":
        return token.text not in KEYWORDS
    return token.kind in ("number", "string") or token.text in CLOSING


def _lines(text: str, start: int, tokens: list[Token]) -> Iterator[Line]:
    words: list[Token] = []
    for token in tokens:
        # A newline inside brackets ends no logical line.
        if token.kind != "newline" or (words and token.opener):
            words.append(token)
        elif words:
            begin = words[0].start
            first = max(text.rfind("\n", 0, begin) + 1, start)
            indent = text[first:begin]
            yield Line(first, indent, words, words[0], words[-1], token)
            words = []
