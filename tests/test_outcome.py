"""What a completion is charged with: a table of cases is the rule."""

import pytest

from stylerl.judge.outcome import Outcome, assess, charged
from stylerl.judge.verdict import Verdict, Violation

PROMPT = "def f(x):\n"  # row 1; the completion begins on row 2
E225 = Violation(2, 6, "E225", "missing whitespace around operator")
E999 = Violation(1, 10, "E999", "IndentationError: expected a block")
IN_PROMPT = Violation(1, 1, "E302", "expected 2 blank lines")


@pytest.mark.parametrize(
    ("finished", "verdict", "outcome", "score"),
    [
        (True, Verdict(()), Outcome.COMPLIANT, 1.0),
        (True, Verdict((IN_PROMPT,)), Outcome.COMPLIANT, 1.0),
        (True, Verdict((E225,)), Outcome.VIOLATIONS, 0.9),
        (True, Verdict((IN_PROMPT, E225, E225)), Outcome.VIOLATIONS, 0.8),
        (True, Verdict((E225,) * 12), Outcome.VIOLATIONS, 0.0),
        (True, Verdict((E999,), False, "E999"), Outcome.UNPARSABLE, 0.0),
        (True, Verdict((), False, "time limit"), Outcome.UNPARSABLE, 0.0),
        (False, Verdict(()), Outcome.UNFINISHED, 1.0),
        (False, Verdict((E225,)), Outcome.UNFINISHED, 0.9),
        (False, Verdict((E999,), False, "E999"), Outcome.UNFINISHED, 0.0),
    ],
)
def test_outcomes(finished, verdict, outcome, score):
    assessment = assess(PROMPT, finished, verdict)

    assert assessment.outcome is outcome
    assert assessment.score == pytest.approx(score)
    assert assessment.parsed is verdict.parsed


def test_the_cut_is_not_charged_with_the_syntax_error_it_made():
    verdict = Verdict((E999, E225), False, "E999")

    assert assess(PROMPT, False, verdict).violations == (E225,)
    assert assess(PROMPT, True, verdict).violations == (E999, E225)


@pytest.mark.parametrize(
    ("prompt", "row", "col", "code", "counts"),
    [
        ("a\nb\n", 2, 1, "E111", False),  # the prompt's last row
        ("a\nb\n", 3, 1, "E111", True),  # the completion's first
        ("a\nbcd", 2, 3, "E111", False),  # no line end: row 2 is shared,
        ("a\nbcd", 2, 4, "E111", True),  # by column
        ("a\nbcd", 1, 9, "E501", False),
        ("a\nbcd", 2, 1, "E704", True),  # a body behind the colon
        ("a\nbcd", 1, 1, "E704", False),
        ("a\nb\n", 1, 1, "E999", True),  # syntax errors, anywhere
        ("a\nb\n", 0, 1, "E902", True),
        ("", 1, 1, "E265", True),  # an empty prompt owns nothing
    ],
)
def test_only_what_lies_behind_the_prompt_is_charged(
    prompt, row, col, code, counts
):
    violation = Violation(row, col, code, "")

    assert charged(prompt, (violation,)) == ((violation,) if counts else ())
