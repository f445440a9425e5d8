"""Statements that do something: a table of bodies."""

import pytest

from stylerl.substance import (
    Substance,
    expected_statements,
    measure,
    share_of_expected,
)

DEF = "def f(a, b):\n"
DOC = 'def f(a, b):\n    """Add."""\n'

CASES = [
    # prompt, completion, statements
    (DEF, "    return a + b\n", 1),
    (DEF, "    total = a + b\n    return total\n", 2),
    # if, return a, return b: a compound statement and what it holds
    (DEF, "    if a:\n        return a\n    return b\n", 3),
    (DEF, "    for x in a:\n        print(x)\n", 2),
    (DEF, "    g(a)\n    g(a)\n    g(a)\n", 1),
    (DEF, "    g(a); g(b)\n", 2),
    (DEF, "    def g():\n        return a\n    return g\n", 3),
    (DOC, "    return a + b\n", 1),
    # what follows the body is not in the body
    (DEF, "    return a\n\n\ndef g(x):\n    return x\n", 1),
    # the last definition of the prompt is the one to fill
    ("class A:\n    def f(self):\n", "        self.x = 1\n", 1),
    ("class A:\n", "    x = 1\n\n    def f(self):\n        self.y = 2\n", 3),
    ("async def f(a):\n", "    await a\n", 1),
    ("x = 1\n", "y = 2\nz = 3\n", 2),
    ("def f(a):", " return a\n", 1),
    ("# é\ndef f(é):", " return é\n", 1),
    # idle
    (DEF, "    pass\n", 0),
    (DEF, "    ...\n", 0),
    (DEF, '    """Add two numbers."""\n', 0),
    (DEF, "    # nothing\n    pass\n    # at all\n", 0),
    (DEF, "    return\n", 0),
    (DEF, "    return None\n", 0),
    (DEF, "    raise NotImplementedError\n", 0),
    (DEF, "    raise NotImplementedError('f')\n", 0),
    (DEF, "    a\n    1\n    'x'\n", 0),
    (DEF, "    global a\n", 0),
    (DOC, "", 0),
    (DOC, "\n    # a comment\n", 0),
    # but not idle
    (DEF, "    raise ValueError(a)\n", 1),
    (DEF, "    return 0\n", 1),
    (DEF, "    if a:\n        return None\n    return b\n", 2),
]

UNPARSABLE = [
    (DEF, ""),
    (DEF, "return a\n"),
    (DEF, "    return (a\n"),
    (DEF, "    x = = 1\n"),
    (DEF, "    # only a comment\n"),
    (DEF, "    x = '\0'\n"),
    (DEF, "    return " + "(" * 500 + ")" * 500 + "\n"),
    (DEF, "    return " + "not " * 3000 + "a\n"),
    (DEF, "    return " + "-" * 100_000 + "1\n"),
]


@pytest.mark.parametrize(("prompt", "completion", "statements"), CASES)
def test_statements_of_a_body(prompt, completion, statements):
    expected = Substance(True, statements, trivial=statements == 0)
    assert measure(prompt, completion) == expected


@pytest.mark.parametrize(("prompt", "completion"), UNPARSABLE)
def test_what_does_not_parse_has_none(prompt, completion):
    assert measure(prompt, completion) == Substance(False, 0, False)


@pytest.mark.filterwarnings("error")
def test_a_bad_escape_in_generated_code_is_no_warning_of_ours():
    assert measure(DEF, "    return '\\d'\n").statements == 1


@pytest.mark.parametrize(
    ("statements", "expected", "share"),
    [(0, 4.0, 0.0), (2, 4.0, 0.5), (4, 4.0, 1.0), (9, 4.0, 1.0), (1, 0.2, 1)],
)
def test_more_than_the_reference_gains_nothing(statements, expected, share):
    assert share_of_expected(statements, expected) == share


def test_expected_statements_by_hand():
    """Usable counts: p 1 and 3, q 2, r none (unfinished, unparsable).
    Overall (1 + 3 + 2) / 3 = 2; p (1 + 3 + 2) / 3 = 2; q (2 + 2) / 2 = 2;
    with s at 6, overall 12 / 4 = 3, p (4 + 3) / 3, q (2 + 3) / 2."""
    one, two = "    return a\n", "    x = a\n    return x\n"
    three = "    if a:\n        return a\n    return b\n"
    samples = {
        DEF: [(one, True), (three, True)],
        DOC: [(two, True)],
        "def r():\n": [(two, False), ("    (\n", True)],
    }
    found = expected_statements(samples)
    assert found == {DEF: 2.0, DOC: 2.0, "def r():\n": 2.0}
    six = "".join(f"    x{i} = a\n" for i in range(6))
    found = expected_statements({**samples, "def s(a):\n": [(six, True)]})
    assert found[DEF] == pytest.approx(7 / 3)
    assert found[DOC] == 2.5
    assert found["def r():\n"] == 3.0
    assert found["def s(a):\n"] == 4.5


def test_a_reference_that_never_parses_expects_one_statement():
    assert expected_statements({DEF: [("    (\n", True)]}) == {DEF: 1.0}
