"""What a completion is charged with: a table of cases is the rule."""

import pytest

from stylerl.config import JudgeConfig
from stylerl.judge import Judge
from stylerl.judge.outcome import Outcome, assess, attribute
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


# Prompt, completion, whether it ended by itself; the rules that flake8 finds,
# put down to the prompt, to the completion, and to the cut.  A completion that
# was cut is given as it is judged, without its last line.
JUDGE = Judge(JudgeConfig(ignore=("E226",)))
DEF = "def f(x):"
LONG = f"x = '{'a' * 60}"  # 65 columns
SHARES = [
    # By place: whoever wrote the character that flake8 names.
    (DEF, "\n    return x\n", True, "", "", ""),
    ("x=1", "\ny=2\n", True, "E225", "E225", ""),
    ("x=1", "\ny=2\n", False, "E225", "E225", ""),
    ("x=1\r\n", "y=2\r\n", True, "E225", "E225", ""),
    ("\ufeffx=1", "\n", True, "E225", "", ""),
    ("x = [1", ",2]\n", True, "", "E231", ""),
    ("x =", "1\n", True, "", "E225", ""),
    ("x", "=1\n", True, "", "E225", ""),
    (LONG, "'\n", True, "", "", ""),
    (LONG, "aaaaaaaaaaaaaaa'\n", True, "", "E501", ""),  # 81 columns
    (LONG + "a" * 20, "'\n", True, "E501", "", ""),
    (DEF + " ", "\n    return x\n", True, "W291", "", ""),
    (DEF, " \n    return x\n", True, "", "W291", ""),
    # pyflakes counts bytes: f'ä' begins 7 of them after its character.
    ("def g(x='äöüäöüä', y=f'ä'):", "\n    return x\n", True, "F541", "", ""),
    # A body on the line of its header, wherever the header begins.
    (DEF, " return x\n", True, "", "E704", ""),
    ("def f(x,\n      y):", " return x\n", True, "", "E704", ""),
    ("if len('a'\n       'b'):", " x = 1\n", True, "", "E701", ""),
    ("def g(): pass\n\n\n" + DEF, " pass\n", True, "E704", "E704", ""),
    ("if 1: x =", " 2\n", True, "E701", "", ""),
    # What only the end of the text makes wrong is the cut's, if it was cut.
    (DEF, "\n    return x", True, "", "W292", ""),
    ("x = 1", "", False, "", "", "W292"),
    (DEF, "\n    return x\n\n", True, "", "W391", ""),
    (DEF, "\n    return x\n\n", False, "", "", "W391"),
    (DEF, "\n    y = x\n", True, "", "F841", ""),
    (DEF, "\n    y = x\n", False, "", "", "F841"),
    (DEF, "\n    y: int\n", False, "", "", "F842"),
    (DEF, "\n    import os\n", False, "", "", "F401"),
    (DEF, "\n    y=x\n    x = 1 \n", False, "", "E225 W291", "F841"),
    ("import os\n\n\n" + DEF, "\n    return x\n", False, "F401", "", ""),
    # Syntax errors: the prompt was cut from text that parses.
    (DEF, "", True, "", "E999", ""),
    (DEF, "", False, "", "", "E999"),
    (DEF, "\n    if x:\n", True, "", "E999", ""),
    (DEF, "\n    if x:\n", False, "", "", "E999"),
    ("x = (1,", " 2\n", True, "", "E999", ""),  # reported at the bracket
]


@pytest.mark.parametrize(
    ("prompt", "completion", "finished", "theirs", "own", "cut"), SHARES
)
def test_whose_violations(prompt, completion, finished, theirs, own, cut):
    found = JUDGE.verdict(prompt + completion).violations
    shares = attribute(prompt, finished, found)

    assert [" ".join(sorted(v.code for v in share)) for share in shares] == [
        theirs,
        own,
        cut,
    ]


@pytest.mark.parametrize(
    ("prompt", "row", "col", "code", "share"),
    [
        ("a\nb\n", 2, 1, "E111", "prompt"),  # the prompt's last row
        ("a\nb\n", 3, 1, "E111", "completion"),  # the completion's first
        ("a\nbcd", 2, 3, "E111", "prompt"),  # no line end: row 2 is shared,
        ("a\nbcd", 2, 4, "E111", "completion"),  # by column
        ("a\nbcd", 1, 9, "E501", "prompt"),
        ("a\nb\n", 1, 1, "E999", "completion"),  # syntax errors, anywhere
        ("a\nb\n", 0, 1, "E902", "completion"),
        ("", 1, 1, "E265", "completion"),  # an empty prompt owns nothing
        # Complexity is reported at a function's head.
        ("x\ndef f():\n", 2, 1, "C901", "completion"),
        ("x\ndef f(a,\n      b):  # Why.", 2, 1, "C901", "completion"),
        ("def f():\n    pass\n\n\nx\n", 1, 1, "C901", "prompt"),
        ("x = '''\nf:", 1, 1, "E701", "prompt"),  # tokenize gives up on it
        # An argument that its own body leaves unused, and another's.
        ("def f(a,\n      b):\n", 2, 7, "ARG001", "completion"),
        ("def g(a):\n    pass\n\n\ndef f(b):\n", 1, 7, "ARG001", "prompt"),
        ("def g(a):\n    pass\n\n\ndef f(b):\n", 5, 7, "ARG001", "completion"),
        ("def g(a):\n    pass\n\n\ndef f(b):\n", 5, 7, "U100", "completion"),
        # A function that a docstring speaks of is none.
        ("def f(a):\n    '''\n    def g(b):\n    '''\n", 1, 7, "U100",
         "completion"),
    ],
)  # fmt: skip
def test_the_share_of_a_place(prompt, row, col, code, share):
    violation = Violation(row, col, code, "")

    assert getattr(attribute(prompt, True, [violation]), share) == (violation,)
