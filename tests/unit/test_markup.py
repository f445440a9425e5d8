"""Where violations are underlined, counted by hand."""

import pytest

from stylerl.judge.verdict import Violation
from stylerl.report.markup import Span, spans, visible

#       0123456789 0123456 : offsets; the second line begins at 10
TEXT = "x=1  # ab\nif  y :\n"


@pytest.mark.parametrize(
    ("row", "col", "code", "start", "end"),
    [
        (1, 2, "E225", 1, 2),  # the operator
        (2, 1, "E111", 10, 12),  # the word "if"
        (2, 3, "E271", 12, 14),  # the blanks
        (1, 4, "W291", 3, 9),  # to the end of the line
        (1, 6, "E501", 5, 9),
        (1, 10, "W292", 9, 9),  # nothing stands there
        (3, 1, "W391", 18, 18),  # behind the last line end
        (9, 9, "E999", 18, 18),  # beyond the text
        (0, 0, "E902", 0, 1),  # before it
    ],
)
def test_a_violation_marks_its_piece(row, col, code, start, end):
    found = spans(TEXT, [Violation(row, col, code, "why")])

    assert found == [Span(start, end, (f"{code} why",))]


def test_a_violation_marks_the_character_that_flake8_counts_to():
    # F codes count bytes, of which é has two, and E999 stands one further.
    (name,) = spans("é, y", [Violation(1, 5, "F821", "why")])
    assert (name.start, name.end) == (3, 4)
    (syntax,) = spans("x y", [Violation(1, 4, "E999", "why")])
    assert (syntax.start, syntax.end) == (2, 3)


def test_marks_at_one_place_are_joined():
    found = spans(
        TEXT,
        [Violation(1, 5, "W291", "b"), Violation(1, 2, "E225", "a")]
        + [Violation(1, 8, "E501", "c")],
    )

    # W291 runs from 4 to 9 and holds E501's 7 to 9.
    assert found == [Span(1, 2, ("E225 a",)), Span(4, 9, ("W291 b", "E501 c"))]


def test_control_characters_become_pictures_one_for_one():
    # ESC would steer a terminal, NUL would end a page; line ends and tabs
    # are layout and stay.
    # So would U+009B; U+202E shows what follows from right to left.
    text = "a\x1b[31mb\x00\r\n\tc\x7f\x9b\u202e"

    assert visible(text) == "a␛[31mb␀␍\n\tc␡��"
    assert len(visible(text)) == len(text)
