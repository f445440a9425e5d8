"""Rows and columns back to the characters and tokens they name."""

import pytest

from stylerl.config import JudgeConfig
from stylerl.judge import Judge
from stylerl.judge.positions import offset, token_at
from stylerl.judge.verdict import Violation

JUDGE = Judge(JudgeConfig())


# The text from the named character on, up to where it is unmistakable.
@pytest.mark.parametrize(
    ("text", "code", "begins"),
    [
        ("a = 1\nx=2\n", "E225", "=2"),
        ("a = 1\r\nx=2\r\n", "E225", "=2"),
        ("\ufeffx=2\n", "E225", "=2"),
        ("é = 'ü' ;y = 1\n", "E702", ";y"),
        # pyflakes counts bytes: each ö before `unused` has two.
        ("def f():\n    ö = 1; unused = ö\n", "F841", "unused"),
        ("print('öö', '{}'.format(1, 2))\n", "F523", "'{}'.f"),
        ("x = 'ö' )\n", "E999", ")"),
        ("y = 1\nx = (1,\n", "E999", "(1"),
        ("x = 1 \n", "W291", " \n"),
        ("x = 1", "W292", ""),
        ("x = 1\n\n", "W391", "\n"),
        (f"x = '{'ö' * 80}'\ny = 1\n", "E501", "öö"),
        # A tab is one column, as it is one character.
        ("if 1:\n\tx=2\n", "E225", "=2"),
        ("x = 1\t;y = 2\n", "E702", ";y"),
        ("x = {'a': 1,\n\t'b': 2}\n", "E128", "'b'"),
        ("if 1:\n    x = 1\n\ty = 2\n", "E999", "\ty"),
        # Four bytes, one character.
        ("print('𝒳', f'')\n", "F541", "f''"),
        ("x = '𝒳\\d'\n", "W605", "\\d"),
        ("x = '''\r\né \r\n'''\r\n", "W291", " \r"),
        ("a = 1\r\rx=2\r", "E225", "=2"),
        ("\ufeffé = 1 )\r\n", "E999", ")"),
        ("\ufeffimport os\n", "F401", "import"),
        ("a = 1\nx=2", "E225", "=2"),  # the last line, without an end
        ("a = 1\n\n\n\nx = 2\n", "E303", "x"),
    ],
)
def test_offset(text: str, code: str, begins: str) -> None:
    (found,) = (v for v in JUDGE.verdict(text).violations if v.code == code)
    place = offset(text, found)
    assert text[place:].startswith(begins)
    if not begins:
        assert place == len(text)


def test_a_place_outside_is_brought_inside() -> None:
    text = "ab\ncd\n"
    assert offset(text, Violation(2, 1, "E225", "")) == 3
    assert offset(text, Violation(1, 99, "E501", "")) == 2
    assert offset(text, Violation(9, 1, "W391", "")) == 6
    assert offset(text, Violation(0, 1, "E902", "")) == 0


# Tokens "x", "=", "1", and a gap at index 3 that belongs to none.
@pytest.mark.parametrize(
    ("position", "token"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (99, 3)]
)
def test_token_at(position: int, token: int) -> None:
    assert token_at([(0, 1), (1, 2), (2, 3), (4, 5)], position) == token
    assert token_at([], position) == 0
