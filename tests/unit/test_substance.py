"""How much a body says: tables of bodies."""

import pytest

from stylerl.reward.substance import (
    Substance,
    expected_sizes,
    measure,
    share_of_expected,
    wholeness,
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
    # what g returns, and that g is returned
    (DEF, "    def g():\n        return a\n    return g\n", 2),
    (DOC, "    return a + b\n", 1),
    # what follows the body is not in the body
    (DEF, "    return a\n\n\ndef g(x):\n    return x\n", 1),
    # the last definition of the prompt is the one to fill
    ("class A:\n    def f(self):\n", "        self.x = 1\n", 1),
    ("class A:\n", "    x = 1\n\n    def f(self):\n        self.y = 2\n", 2),
    ("async def f(a):\n", "    await a\n", 1),
    ("x = 1\n", "y = x.a\nz = x.b\n", 2),
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
    (DEF, "    if a:\n        return None\n    return b\n", 2),
    # nobody reads what they bind
    (DEF, "    x = f(a)\n    y = x + b\n", 0),
    # a choice between two that do the same is none
    (DEF, "    if a:\n        return b\n    return b\n", 1),
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
    # completion, pairs, expressions that are no constant inside another
    ("    return a\n", 1, 1),  # return of a
    ("    return a + 1\n", 2, 3),  # + of a, return of +; a, 1 and their sum
    # f of a, return of f; f, a and the call
    ("    x = f(a)\n    return x\n", 2, 4),
    ("    a.x = b\n", 2, 3),  # .x of a, store of b in it; b, a.x and a
    ("    f(a, key=b)\n", 2, 4),  # f of a, f of b
    ("    if a:\n        return b\n", 2, 2),  # if a, return of b
    # loop over a, f of an item
    ("    for x in a:\n        f(x)\n", 2, 4),
    ("    return a.x.y\n", 3, 3),  # .x of a, .y of .x, return of .y
    ("    return a.x.y.z\n", 3, 4),  # no third link
    ("    return -a\n", 2, 2),
    ("    return ---a\n", 2, 4),  # a chain is its first link
    ("    return ----1\n", 1, 1),  # a constant
    ("    return (1, [2], {3: 4})\n", 1, 1),
    ("    return a == a\n", 1, 1),  # always the same
    ("    return b\n    return a.x\n", 1, 1),  # never reached
    ("    if False:\n        return a.x\n    return b\n", 1, 1),
    ("    pass\n", 0, 0),
]


@pytest.mark.parametrize(("completion", "pairs", "expressions"), SIZES)
def test_the_size_of_a_body(completion, pairs, expressions):
    """Below 0.4 pairs an expression, less by the square of what lacks."""
    thin = min(1.0, pairs / (0.4 * max(1, expressions)))
    assert measure(DEF, completion).size == pytest.approx(pairs * thin**2)


def test_repetition_thins_a_body():
    """One pair in five expressions is half of 0.4: a quarter is left."""
    found = measure(DEF, "    a.x()\n    a.x()\n")
    # .x of a, .x of nothing; twice call, attribute and name: 2 in 6
    assert found.size == pytest.approx(2 * (2 / (0.4 * 6)) ** 2)


@pytest.mark.parametrize(
    ("text", "known", "size"),
    [
        ("    return g(h(a))\n", None, 2.0),  # ? of a; return of ?
        ("    return g(h(a))\n", {"g", "h"}, 3.0),  # h of a, g of h, return
        ("    return g(a.x)\n", {"h"}, 2.0),  # no g: .x of a, and its return
        ("    return g.h.i\n", {"h"}, 1.0),  # nothing is known of g
        ("    return g.h\n", {"g"}, 2.0),
        # .x, .y and .z of a, and each in the tuple, which is returned: seven
        ("    return a.x, a.y, a.z\n", {".x", ".y", ".z"}, 7.0),
        # .? of a, in the tuple, which is returned: 3 pairs; 7 expressions,
        # and 2 for what the tuple says again
        ("    return a.x, a.y, a.z\n", {".w"}, 3 * (3 / (0.4 * 9)) ** 2),
        ("    return a.pop, a.keys\n", set(), 5.0),  # of builtin types
        # .? of a and its return, in 7 expressions
        ("    return a.x().y().z()\n", set(), 2 * (2 / (0.4 * 7)) ** 2),
        ("    return max(1, 2)\n", set(), 1.0),  # a constant
    ],
)
def test_names_of_the_module_around(text, known, size):
    assert measure(DEF, text, known).size == pytest.approx(size)


@pytest.mark.parametrize(
    ("size", "expected", "factor"),
    # shares 0, 0.15, 0.3 and 1; half of the way to 0.3, squared
    [(0, 4.0, 0.0), (0.6, 4.0, 0.25), (1.2, 4.0, 1.0), (9, 4.0, 1.0)],
)
def test_style_counts_where_substance_is_whole(size, expected, factor):
    assert wholeness(size, expected) == pytest.approx(factor)


HOSTILE = [
    "    return " + "a." * 5000 + "a\n",
    "    return " + " + ".join(["a"] * 3000) + "\n",
    "    return " + "[" * 90 + "a" + "]" * 90 + "\n",
    "    return " + "[x for x in " * 90 + "a" + "]" * 90 + "\n",
    "    return " + "(x:=" * 90 + "a" + ")" * 90 + "\n",
    "".join(f"{' ' * (4 + i)}if a:\n" for i in range(80)) + " " * 99 + "a\n",
    "    if a:\n        return 1\n" * 3000,
    "    if a:\n        b = 1\n" + "    elif a:\n        b = 2\n" * 300,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_body_is_measured_or_does_not_parse(text):
    """And within reach of the time a test may take, linear in its size."""
    assert measure(DEF, text).size < 5


def test_expected_sizes_by_hand():
    """Sizes: DEF 1 and 2 (of 13 and 33 characters), DOC 2 (of 15).  So 5
    pairs in 61 characters; the one of 20 that does not parse counts 20 * 5
    / 61.  Each mean has the overall mean as one sample more, geometrically:
    (1.5 * 1.5 * overall) ** (1 / 3) for DEF."""
    one, two = "    return a\n", "    if a:\n        return b\n    #\n"
    last, broken = "    return a.b\n", "    return (a + b\n\n\n"
    assert list(map(len, (one, two, last, broken))) == [13, 33, 15, 20]
    found = expected_sizes({DEF: [one, two], DOC: [last], "x\n": [broken]})
    density = 5 / 61
    overall = (5 + 20 * density) / 4
    assert found[DEF] == pytest.approx((1.5 * 1.5 * overall) ** (1 / 3))
    assert found[DOC] == pytest.approx((2 * overall) ** 0.5)
    assert found["x\n"] == pytest.approx((20 * density * overall) ** 0.5)


def test_many_samples_of_one_prompt_are_no_overflow():
    """Their mean is that of all; its 1,000th power is no float."""
    body = "".join(f"    a.x{i}.y{i}(b.z{i})\n" for i in range(20))
    size = measure(DEF, body).size
    assert size > 20
    assert expected_sizes({DEF: [body] * 1000})[DEF] == pytest.approx(size)


def test_a_reference_that_never_parses_expects_nothing():
    assert expected_sizes({DEF: ["    (\n"]}) == {DEF: 0.0}
    assert share_of_expected(1, 0.0) == 1.0
