"""What became of one completion: the judge's verdict, fairly charged.

A completion is judged together with its prompt, as one file, because most
rules need both.  Three things are then told apart: violations that stand in
the prompt are not the model's, what was cut at the token limit is not bad
style, and text that does not parse is not text with one violation.
"""

from enum import StrEnum
from typing import NamedTuple

from stylerl.judge.verdict import Verdict, Violation, style_score


class Outcome(StrEnum):
    """The four ways a completion can end; only the first is a success."""

    COMPLIANT = "compliant"
    VIOLATIONS = "violations"
    UNPARSABLE = "unparsable"
    UNFINISHED = "unfinished"


class Assessment(NamedTuple):
    """A completion's outcome, with the violations it is charged with."""

    outcome: Outcome
    parsed: bool
    score: float  # 0 to 1
    violations: tuple[Violation, ...]  # rows count from the prompt's first


def assess(prompt: str, finished: bool, verdict: Verdict) -> Assessment:
    """Charge a verdict on prompt and completion to the completion.

    An unfinished one is judged without the line that was cut; a syntax
    error in what is left is the cut's, and is not charged.
    """
    violations = charged(prompt, verdict.violations)
    if not finished:
        outcome = Outcome.UNFINISHED
        violations = tuple(v for v in violations if not _is_syntax(v))
    elif not verdict.parsed:
        outcome = Outcome.UNPARSABLE
    elif violations:
        outcome = Outcome.VIOLATIONS
    else:
        outcome = Outcome.COMPLIANT
    score = style_score(len(violations)) if verdict.parsed else 0.0
    return Assessment(outcome, verdict.parsed, score, violations)


def charged(
    prompt: str, violations: tuple[Violation, ...]
) -> tuple[Violation, ...]:
    """The violations that lie beyond the prompt's last character.

    A syntax error (E9) is charged wherever flake8 puts it: the prompt was
    cut from text that parses.  So is a body on the line of its `def` (E70),
    which flake8 reports at the line's head.
    """
    last_row = prompt.count("\n") + 1
    last_column = len(prompt) - (prompt.rfind("\n") + 1)
    end = (last_row, last_column)
    return tuple(
        violation
        for violation in violations
        if (violation.row, violation.col) > end
        or _is_syntax(violation)
        or (violation.row == last_row and violation.code.startswith("E70"))
    )


def _is_syntax(violation: Violation) -> bool:
    return violation.code.startswith("E9")
