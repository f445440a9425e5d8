"""Violations as spans of a text, for a page or a terminal.

Completions are untrusted text: whatever shows them escapes them in its own
way, after `visible` has taken the control characters out.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from stylerl.judge.positions import offset
from stylerl.judge.verdict import Violation

TO_LINE_END = frozenset(("E501", "W291", "W293", "W505"))

_CONTROLS = {
    code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"
} | {127: "␡"}
# Those of 8 bits, which some terminals obey, and what turns text around.
_CONTROLS |= dict.fromkeys(
    [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�"
)
_PIECE = re.compile(r"\w+|[^\S\n]+|[^\w\s]")


class Span(NamedTuple):
    """A stretch of text to underline; empty at a line's or text's end."""

    start: int
    end: int
    messages: tuple[str, ...]


def visible(text: str) -> str:
    """Control characters as their pictures or as �, one for one."""
    return text.translate(_CONTROLS)


def spans(text: str, violations: Iterable[Violation]) -> list[Span]:
    """The span of each violation, in order, without overlap.

    Spans that overlap are joined, and carry the messages of both.
    """
    ordered = sorted(_span(text, violation) for violation in violations)
    joined: list[Span] = []
    for span in ordered:
        last = joined[-1] if joined else None
        if last and (span.start < last.end or span.start == last.start):
            joined[-1] = Span(
                last.start,
                max(last.end, span.end),
                last.messages + span.messages,
            )
        else:
            joined.append(span)
    return joined


def _span(text: str, violation: Violation) -> Span:
    start = offset(text, violation)
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    piece = _PIECE.match(text, start)
    end = piece.end() if piece else start
    if violation.code in TO_LINE_END:
        end = line_end
    message = f"{violation.code} {violation.text}"
    return Span(start, end, (message,))
