"""Code that parses -> code that does not, as a failing policy writes it.

Truncation, unmatched brackets and quotes, a missing colon, a line indented
by one space too many or too few.  Only text after `start` changes.  No source
is executed.
"""

import random
import re

from stylerl.corrupt.rules import same_program

TRIES = 8


def break_syntax(text: str, start: int, rng: random.Random) -> str | None:
    """Make `text` unparsable after `start`; None where no try did.

    A `start` below 0 means the beginning, as for whole files.
    """
    start = max(start, 0)
    head, body = text[:start], text[start:]
    for _ in range(TRIES):
        changed = head + rng.choice(WAYS)(body, rng)
        if not same_program("", changed):
            return changed
    return None


def _cut(body: str, rng: random.Random) -> str:
    """End at any character."""
    return body[: rng.randrange(len(body) + 1)]


def _drop(body: str, rng: random.Random) -> str:
    """Leave out a bracket, a quote or a colon."""
    places = [m.start() for m in re.finditer(r"[()\[\]{}'\":]", body)]
    if not places:
        return body
    place = rng.choice(places)
    return body[:place] + body[place + 1 :]


def _add(body: str, rng: random.Random) -> str:
    """Write a bracket or a quote too many."""
    place = rng.randrange(len(body) + 1)
    return body[:place] + rng.choice("()[]'\"") + body[place:]


def _shift(body: str, rng: random.Random) -> str:
    """Move a line by a space to either side."""
    lines = body.splitlines(keepends=True)
    if not lines:
        return body
    place = rng.randrange(len(lines))
    line = lines[place]
    lines[place] = " " + line if rng.random() < 0.5 else line[1:]
    return "".join(lines)


WAYS = (_cut, _drop, _add, _shift)
