"""A source for the judge, and the judge's verdict."""

from dataclasses import dataclass
from typing import NamedTuple

SNIPPET = "snippet.py"  # the file name of a source that has none
SYNTAX = ("E9", "invalid-syntax")  # how codes of what cannot be read begin


class Extent(NamedTuple):
    """The rows of a function in its file."""

    above: int  # rows before its first
    rows: int  # of the function
    joint: int  # below it, to the one that its blank lines may offend

    @property
    def below(self) -> int:
        """The rows up to the function's last."""
        return self.above + self.rows


class Source(NamedTuple):
    """One source to judge."""

    content: bytes
    path: str = SNIPPET  # which rules on `__init__.py` and others look at
    extent: Extent | None = None  # if nothing is asked about other rows


class Violation(NamedTuple):
    """One finding, as the command of the judge's engine prints it."""

    row: int  # from 1; 0 where flake8 has no row to give
    col: int  # from 1
    code: str  # such as "E225"
    text: str  # the message, without the code


@dataclass(frozen=True)
class Verdict:
    """The violations of one source, sorted as they are read.

    By row, column, code and text, that is, since flake8 leaves the order of
    what it finds in the same place to chance.

    `parsed` is False, and `reason` says why, where the engine could not read
    the source to its end: a syntax error, a crash of it or the time limit.
    Violations found up to that point are kept.
    """

    violations: tuple[Violation, ...]
    parsed: bool = True
    reason: str | None = None

    @property
    def score(self) -> float:
        """The style score, 0 to 1; 0 where the source does not parse."""
        return style_score(len(self.violations)) if self.parsed else 0.0

    @property
    def compliant(self) -> bool:
        """Whether the source parses and breaks no rule."""
        return self.parsed and not self.violations


def style_score(violations: int) -> float:
    """max(0, 1 - n / 10): ten violations or more score nothing."""
    return max(0.0, 1.0 - violations / 10.0)
