"""Python source as tokens with offsets, for corruptions to edit by.

One regular expression reads the source, because `tokenize` gives rows and
columns, refuses fragments, and is slower.  Strings are opaque, f-strings
too.  A source that this expression misreads (nested quotes in f-strings
of Python 3.12) can only lead to a changed syntax tree, and `corrupt` drops
such edits.
"""

import functools
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, NamedTuple, ParamSpec

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


class Token(NamedTuple):
    """A piece of source, blanks left out."""

    kind: str  # comment, string, number, name, newline, backslash, operator
    text: str
    start: int  # offset of its first character
    end: int  # offset after its last character
    opener: int  # index of the innermost open bracket around it, or -1


class Line(NamedTuple):
    """A logical line, or a line that holds a comment alone."""

    start: int  # offset of its first physical line
    indent: str
    first: int  # index of its first token
    last: int  # index of the newline that ends it


class Code(NamedTuple):
    """Tokens of `text[start:]` with offsets into `text`."""

    text: str
    start: int
    tokens: list[Token]

    def gap(self, index: int) -> str:
        """The text between token `index` and the one before it."""
        before = self.tokens[index - 1].end if index else self.start
        return self.text[before : self.tokens[index].start]

    def lines(self) -> list[Line]:
        """Logical lines and comment lines in order, blank lines left out."""
        return list(_lines(self))


class Edit(NamedTuple):
    """Replace `text[start:end]` by `new`."""

    start: int
    end: int
    new: str


Site = tuple[Edit, ...]  # the edits that together make one violation


Options = ParamSpec("Options")


def with_options(
    find: Callable[Concatenate[Code, Options], Iterator[Site]],
) -> Callable[Options, Callable[[Code], Iterator[Site]]]:
    """Options first and code later: find(code, x) becomes find(x)(code)."""
    return lambda *args, **named: lambda code: find(code, *args, **named)


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
    tokens: list[Token] = []
    openers: list[int] = []
    for match in _TOKEN.finditer(text, start):
        kind = match.lastgroup
        if kind is None or kind == "blank":
            continue
        # A bracket of either kind counts as outside of its own pair.
        word = match.group()
        if word in CLOSING and openers:
            openers.pop()
        opener = openers[-1] if openers else -1
        if word in OPENING:
            openers.append(len(tokens))
        tokens.append(Token(kind, word, *match.span(), opener))
    return Code(text, start, tokens)


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


def _lines(code: Code) -> Iterator[Line]:
    first = -1
    for index, token in enumerate(code.tokens):
        if first < 0 and token.kind != "newline":
            first = index
        # A newline inside brackets ends no logical line.
        if token.kind == "newline" and token.opener < 0 and first >= 0:
            begin = code.tokens[first].start
            start = max(code.text.rfind("\n", 0, begin) + 1, code.start)
            yield Line(start, code.text[start:begin], first, index)
            first = -1
