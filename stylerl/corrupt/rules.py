"""Style corruptions: from clean Python to unformatted Python, same meaning.

`RULES` holds one function a rule.  `corrupt_style` applies a few of them to
the body of a snippet, each at many sites, so that code of installed packages
comes to look like unformatted code at large.  The syntax tree stays equal.
No source is executed.

The rules are pycodestyle's of layout that people who write without a linter
break most; those that a snippet seldom has a site for are left out.
"""

import ast
import random
from functools import partial
from typing import NamedTuple

from stylerl.corrupt import indent, lines, spacing
from stylerl.corrupt.tokens import Find, apply, gaps, read
from stylerl.judge.names import parse


class Corruption(NamedTuple):
    """One rule: where it can be broken, and how often it is drawn."""

    sites: tuple[Find, ...]  # alternatives
    weight: float  # how often `corrupt_style` draws it

    def __call__(
        self, text: str, rng: random.Random, start: int = 0, share: float = 0.0
    ) -> str | None:
        """Break the rule in `text[start:]`; None where it has no site.

        Every site is changed with probability `share`, and always one.
        """
        code = read(text, start)
        edits = list(rng.choice(self.sites)(code))
        if not edits:
            return None
        certain = rng.randrange(len(edits))  # so that at least one changes
        chosen = [
            site
            for i, site in enumerate(edits)
            if i == certain or rng.random() < share
        ]
        return apply(text, chosen)


def _rule(weight: float, *sites: Find) -> Corruption:
    return Corruption(sites, weight)


RULES: dict[str, Corruption] = {
    "E111": _rule(
        4,
        partial(indent.reindent, width=2),
        partial(indent.reindent, width=3),
        indent.shallow_block,
    ),
    "W191": _rule(4, indent.tabs),
    "E201": _rule(3, gaps(spacing.after_opening, "", " ")),
    "E202": _rule(3, gaps(spacing.before_closing, "", " ")),
    "E203": _rule(2, gaps(spacing.before_punctuation, "", " ")),
    "E211": _rule(2, gaps(spacing.before_call, "", " ")),
    "E221": _rule(2, gaps(spacing.before_operator, " ", "  ")),
    "E222": _rule(1, gaps(spacing.after_operator, " ", "  ")),
    "E225": _rule(
        8,
        partial(
            spacing.unspaced, words=spacing.COMPARISONS | spacing.ASSIGNMENTS
        ),
    ),
    "E226": _rule(3, partial(spacing.unspaced, words=spacing.ARITHMETIC)),
    "E231": _rule(8, gaps(spacing.after_punctuation, " ", "")),
    "E241": _rule(1, gaps(spacing.after_punctuation, " ", "  ")),
    "E251": _rule(4, spacing.keyword_equals),
    "E265": _rule(4, spacing.comment_start),
    "E271": _rule(1, gaps(spacing.after_keyword, " ", "  ")),
    "E272": _rule(1, gaps(spacing.before_keyword, " ", "  ")),
    "E275": _rule(3, spacing.keyword_bracket),
    "E303": _rule(3, lines.blank_lines),
    "E501": _rule(6, lines.long_lines),
    "E701": _rule(4, lines.one_line),
    "E702": _rule(1, lines.joined_statements),
    "E703": _rule(2, lines.semicolons),
    "W291": _rule(4, spacing.trailing_blank),
    "W293": _rule(5, spacing.blank_line_blanks),
    "W391": _rule(1, lines.blank_end),
}


def corrupt_style(
    text: str, start: int, rng: random.Random
) -> tuple[str, list[str]]:
    """Break one to four rules in the body, each at many sites.

    Returns the new text and the names of the rules applied, in order of
    application; the text unchanged and no names where no rule has a site
    or the result would be another program.  `start` is where the prompt
    ends, and the body begins on the next line; -1 means the whole text.
    """
    start = _body_line(text, start)
    result, names = text, []
    wanted = rng.randint(1, 4)
    for name in _draw(rng):
        share = 1.0 if rng.random() < 0.5 else rng.uniform(0.3, 0.9)
        changed = RULES[name](result, rng, start, share)
        if changed is not None and changed != result:
            result = changed
            names.append(name)
        if len(names) == wanted:
            break
    if not names or not same_program(text, result):
        return text, []
    return result, names


def _body_line(text: str, start: int) -> int:
    """Offset of the first line that begins at `start` or after it."""
    if start <= 0 or text[start - 1] == "\n":
        return max(start, 0)
    return text.find("\n", start) + 1 or len(text)


def break_once(
    rule: str, text: str, start: int, rng: random.Random
) -> str | None:
    """Break `rule` at one site of the body; None where none is.

    None as well where the result would not be the same program.
    """
    corrupted = RULES[rule](text, rng, _body_line(text, start))
    if corrupted is None or not same_program(text, corrupted):
        return None
    return corrupted


def _draw(rng: random.Random) -> list[str]:
    """All rules in a random order, those of larger weight earlier.

    Exponential keys, Efraimidis and Spirakis 2006 (weighted sampling
    without replacement).
    """
    keys = {name: rng.expovariate(rule.weight) for name, rule in RULES.items()}
    return sorted(keys, key=keys.__getitem__)


def same_program(before: str, after: str) -> bool:
    """Whether `after` parses, to the tree of `before` unless that is ""."""
    try:
        tree = parse(after)
        return not before or ast.dump(parse(before)) == ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
