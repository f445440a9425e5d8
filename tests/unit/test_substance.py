"""Statements that do something: a table of bodies."""

import pytest

from stylerl.reward.substance import (
    Substance,
    expected_sizes,
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
    found = measure(prompt, completion)
    assert found.parsed
    assert found.statements == statements
    assert found.trivial == (statements == 0)


@pytest.mark.parametrize(("prompt", "completion"), UNPARSABLE)
def test_what_does_not_parse_has_none(prompt, completion):
    assert measure(prompt, completion) == Substance(False, 0, 0, False)


@pytest.mark.filterwarnings("error")
def test_a_bad_escape_in_generated_code_is_no_warning_of_ours():
    assert measure(DEF, "    return '\\d'\n").statements == 1


@pytest.mark.parametrize(
    ("statements", "expected", "share"),
    [(0, 4.0, 0.0), (2, 4.0, 0.5), (4, 4.0, 1.0), (9, 4.0, 1.0), (1, 0.2, 1)],
)
def test_more_than_the_reference_gains_nothing(statements, expected, share):
    assert share_of_expected(statements, expected) == share


SIZES = [
    ("    return a\n", 1),  # a
    ("    x = f(a)\n", 4),  # x, call, f, a
    ("    x = a + 1\n", 4),  # x, binary, a, 1
    ("    x.y = a\n", 3),  # attribute, x, a
    ("    f(a, key=b)\n", 5),  # call, f, a, keyword, b
    # a; b: what is inside counts for itself
    ("    if a:\n        return b\n", 2),
    # x, a; call, f, x
    ("    for x in a:\n        f(x)\n", 5),
    # its argument; y; call, g, a
    ("    def g(y):\n        return y\n    g(a)\n", 1 + 1 + 3),
    # handler, ValueError; two calls of call, name, a
    (
        "    try:\n        f(a)\n    except ValueError:\n        g(a)\n",
        2 + 3 + 3,
    ),
    ("    f(a)\n    f(a)\n", 3),  # the same again adds nothing
    ("    pass\n", 0),
]


@pytest.mark.parametrize(("completion", "size"), SIZES)
def test_the_size_of_a_body(completion, size):
    assert measure(DEF, completion).size == size


def test_expected_sizes_by_hand():
    """Sizes: DEF 1 and 2 (of 13 and 33 characters), DOC 4 (of 13).  So 7
    nodes in 59 characters; the one of 20 that does not parse counts 20 * 7
    / 59.  Each mean has the overall mean as one sample more."""
    one, two = "    return a\n", "    if a:\n        return b\n    #\n"
    five, broken = "    x = f(a)\n", "    return (a + b\n\n\n"
    assert list(map(len, (one, two, five, broken))) == [13, 33, 13, 20]
    found = expected_sizes({DEF: [one, two], DOC: [five], "x\n": [broken]})
    density = 7 / 59
    overall = (7 + 20 * density) / 4
    assert found[DEF] == pytest.approx((3 + overall) / 3)
    assert found[DOC] == pytest.approx((4 + overall) / 2)
    assert found["x\n"] == pytest.approx((20 * density + overall) / 2)


def test_a_reference_that_never_parses_expects_nothing():
    assert expected_sizes({DEF: ["    (\n"]}) == {DEF: 0.0}
    assert share_of_expected(1, 0.0) == 1.0
