"""Prompts to learn from: headers, and starts of bodies."""

import textwrap

import pytest

from stylerl.config import JudgeConfig
from stylerl.data import prompts
from stylerl.data.prompts import heads_inside, some_inside
from stylerl.judge import Judge
from stylerl.judge.outcome import Outcome
from stylerl.judge.place import File, Place
from stylerl.reward.grade import grade, style

HEAD = "def sign(x, zero=0):"
SIGN = textwrap.dedent("""\
    def sign(x, zero=0):
        # of a number

        if x < zero:
            return -1
        elif x == zero:
            return 0
        values = {
            "high": 1,
        }
        return values["high"]
    """)
FILE = "import os\n\n\n" + SIGN


def sign(file=FILE, function=SIGN):
    """Where it stands."""
    row = file.split("\n").index(HEAD) + 1
    return Place(File(file.split("\n"), "a.py"), row, function, HEAD)


def test_a_body_is_cut_before_each_statement_but_its_first():
    """Of a statement of several lines there is one cut."""
    ends = [head.rpartition("\n")[2] for head in heads_inside(SIGN, HEAD)]
    assert ends == [
        "    if x < zero:",
        "        return -1",
        "    elif x == zero:",
        "        return 0",
        "    }",
    ]
    assert all(SIGN.startswith(head) for head in heads_inside(SIGN, HEAD))
    assert heads_inside("def f():\n    return 1\n", "def f():") == []


def test_a_share_of_the_prompts_ends_inside_a_body(monkeypatch):
    texts = [SIGN.replace("sign", f"sign{n}") for n in range(40)]
    heads = [text.partition("\n")[0] for text in texts]
    places = {
        head: Place(File(text.split("\n"), "a.py"), 1, text, head)
        for head, text in zip(heads, texts, strict=True)
    }
    found = list(some_inside(heads, places, seed=0))
    whole = [head for head in heads if head in found]
    assert 10 < len(whole) < 30  # half of 40, four deviations either way
    assert len(found) == 40
    # Each depends on itself and the seed alone.
    assert list(some_inside(heads[7:9], places, 0)) == found[7:9]
    assert list(some_inside(heads, places, 1)) != found
    # All or none, and one whose place is unknown.
    monkeypatch.setattr(prompts, "INSIDE", 1.0)
    assert not set(some_inside(heads, places, 0)) & set(heads)
    assert some_inside(["def f():"], places, 0) == {"def f():": None}


@pytest.mark.parametrize(
    ("given", "completion", "outcome", "worth"),
    [
        (1, "\n        return -1\n    return 0\n", Outcome.COMPLIANT, 1.0),
        (1, "\n        return -1  \n    return 0\n", Outcome.VIOLATIONS, 0.45),
        (4, "\n    return values\n", Outcome.VIOLATIONS, 0.45),
        # Nothing, or only a comment: clean, and worth nothing.
        (4, "\n", Outcome.COMPLIANT, 0.0),
        (4, "", Outcome.COMPLIANT, 0.0),
        (4, "\n    # done\n", Outcome.COMPLIANT, 0.0),
        # After a colon it does not parse.
        (1, "\n", Outcome.UNPARSABLE, 0.0),
    ],
)
def test_what_follows_given_lines_is_judged_and_priced(
    given, completion, outcome, worth
):
    """Of the style reward one violation leaves 0.45: score 0.9, halved."""
    head = heads_inside(SIGN, HEAD)[given - 1]
    where = sign().continued(head)
    judge = Judge(JudgeConfig(select=("E", "W", "F")), places={head: where})
    (graded,) = grade(judge, [head], [completion], [True])
    assert graded.assessment.outcome is outcome
    assert style(graded, {}) == pytest.approx(worth)
