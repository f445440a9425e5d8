"""Numbers that expose a gamed reward, on texts counted by hand."""

import math

import pytest

from stylerl.reward import gaming as guards


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        ([], 0.0),
        (["a b"], 0.0),  # two lexemes hold no 3-gram
        (["a b c d"], 1.0),  # abc bcd
        (["a a a a"], 1 / 2),  # aaa aaa
        (["a b c", "a b c"], 1 / 2),  # the same one in both texts
        (["x=1"], 1.0),  # x, =, 1 are three lexemes
    ],
)
def test_distinct_3(texts, share):
    assert guards.distinct_ngrams(texts) == share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("\n\n", 0.0),  # empty lines repeat nothing
        ("x = 1\ny = 2\n", 0.0),
        ("x = 1\n\n    x = 1\n", 1 / 2),  # whatever its indentation
        ("x\nx\nx\nx\n", 3 / 4),
    ],
)
def test_repeated_lines(text, share):
    assert guards.repeated_line_share(text) == share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("# a\nx = 1  # b\n", 1 / 2),  # a trailing comment is code
        ("    # a\n\n    # b\n", 1.0),
    ],
)
def test_comment_lines(text, share):
    assert guards.comment_line_share(text) == share


@pytest.mark.parametrize(
    ("completion", "code", "every"),
    [
        ("", 0, 0),
        ("    return x\n", 8, 8),
        ("    # a\n    return x  # b\n", 13, 16),  # the second is code
        ('    """a\n\n    b"""\n    return x\n', 8, 16),  # 4 and 4 are not
        ('    """a\n    # b"""\n', 0, 10),
        ('    y = """a\n    b"""\n', 12, 12),  # 8 and 4, of an assignment
        ('    f(\n        "a"\n    )\n', 6, 6),  # 2 and 3 and 1, of a call
        ("    f'{x}'\n    1\n", 1, 7),  # a number is no prose
        ('    # a\n    """b"""\n    (\n', 8, 11),  # does not parse
        ('\n    """b"""\n    return x\n', 8, 15),  # begins in the head's line
        # 5 and 8 are new; the second return, whatever its depth, is not
        ("    if x:\n        return x\n    return x\n", 13, 21),
        ("    # return x\n    return x\n    return x\n", 8, 26),
    ],
)
def test_characters_of_new_code(completion, code, every):
    head = "def f(x):" if completion.startswith("\n") else "def f(x):\n"
    assert guards.code_characters(head, completion) == (code, every)


@pytest.mark.parametrize(
    ("prompt", "completion", "has"),
    [
        ("def f(x):\n", '    """a"""\n    return x\n', True),
        ("def f(x):\n", "    return x\n    'a'\n", True),
        ('def f(x):\n    """a"""', "\n    return x\n", False),  # its prompt
        ('def f(x):\n    """a', '"""\n    return x\n', True),  # its end
        ('def f(x):\n    """a"""', "  # b\n    return x\n", False),
        ("def f(x):\n", '    """a"""\n    (\n', False),  # does not parse
    ],
)
def test_docstrings(prompt, completion, has):
    assert guards.has_docstring(prompt, completion) is has


@pytest.mark.parametrize(
    ("text", "tries"),
    [
        ("x = 1  # noqa\n", True),
        ("# flake8: NOQA\n", True),
        ("noqa = 1\n", False),
        ("# noqaq\n", False),
    ],
)
def test_noqa(text, tries):
    assert guards.mentions_noqa(text) is tries


@pytest.mark.parametrize(
    ("prompt", "completion", "copies"),
    [
        ("def f(x):\n", "    return x\n\n\ndef f(x):\n", True),
        ("def f(x):\n", "    return x\n", False),
        ("\n", "\n", False),
    ],
)
def test_copied_prompt(prompt, completion, copies):
    assert guards.copies_prompt(prompt, completion) is copies


@pytest.mark.parametrize(
    ("prompt", "completion", "statements", "trivial"),
    [
        ("def f(a):", "\n    return a\n", 1, False),
        ("def f(a):", "\n    pass\n", 1, True),
        ("def f(a):", "\n    ...\n", 1, True),
        ("def f(a):", '\n    """Say."""\n', 0, True),
        ("def f(a):", "\n    return None\n", 1, True),
        ("def f(a):", "\n    raise NotImplementedError\n", 1, True),
        ("def f(a):", "\n    raise ValueError(a)\n", 1, False),
        ("def f(a):", "\n    a()\n", 1, False),
        ("def f(a):", "\n    x = 1\n    return 2\n", 2, False),
        # if, its branch, and the return
        ("def f(a):", "\n    if a:\n        a()\n    return a\n", 3, False),
        # What the prompt holds is not the completion's, nor what follows.
        ('def f(a):\n    """Say."""\n', "    return a\n", 1, False),
        ("def f(a):", "\n    return a\n\n\nx = 1\n", 1, False),
        ("class A:\n    x = 1\n", "    y = 2\n", 1, False),
        ("x = 1\n", "y = x\nz = y\n", 2, False),
        # What the prompt began is the completion's, what it ended is not.
        ("def f(a):\n    return ", "a\n", 1, False),
        ("def f(a):\n    return ", "1\n", 1, True),
        ('def f(a):\n    """Say."""\n', "", 0, True),
    ],
)
def test_a_body_and_what_it_says(prompt, completion, statements, trivial):
    body = guards.body_of(prompt, completion)
    assert body is not None
    assert guards.count_statements(body) == statements
    assert guards.is_trivial(body) == trivial


@pytest.mark.parametrize(
    ("prompt", "completion", "share"),
    [
        ("def f(a, b):", "\n    return a\n", 1 / 2),
        ("def f(a, *b, c=1, **d):", "\n    return b, d\n", 1 / 2),
        ("def f(self, a):", "\n    return self\n", 0),
        ("def f(a):", "\n    a = 1\n    return 2\n", 0),  # never read
        ("def f(a):", "\n    a += 1\n", 1),
        ("def f(a):", "\n    a = 1\n    return a\n", 1),  # bound anew
        ("def f(a):", "\n    def g():\n        return a\n    g()\n", 1),
        # A line that the prompt gives counts; a default does not.
        ("def f(a, b):\n    a += 1\n    x = a\n", "    return b, x\n", 1),
        ("def f(a, b=lambda x: x):", "\n    return b\n", 1 / 2),
        ("def f(self, cls, _a):", "\n    return 1\n", None),
        ("def f():", "\n    return 1\n", None),
        ("class A:\n    x = 1\n", "    y = 2\n", None),
        ("def f(a):", "\n    return (\n", None),
        # An `if` that chooses nothing reads nothing; one that chooses does.
        ("def f(a):", "\n    if a:\n        return 1\n    return 1\n", 0),
        ("def f(a):", "\n    if a:\n        b()\n    else:\n        b()\n", 0),
        ("def f(a):", "\n    if a:\n        b()\n    b()\n", 1),  # once more
        ("def f(a):", "\n    if a:\n        return 1\n    return 2\n", 1),
        # One above another that chooses nothing.
        (
            "def f(a, b):",
            "\n    if a:\n        return 1\n"
            "    if b:\n        return 1\n    return 1\n",
            0,
        ),
    ],
)
def test_the_arguments_that_a_body_reads(prompt, completion, share):
    found = guards.used_arguments(prompt, completion)
    assert math.isnan(found) if share is None else found == share


@pytest.mark.parametrize(
    ("completion", "idle"),
    [
        ("\n    a.b = a.b\n", True),
        ("\n    a = a = b\n", False),  # a chain: not looked into
        ("\n    a.b = b\n    b = a\n", False),
        ("\n    if a:\n        return b\n    return b\n", True),
        ("\n    if a:\n        b()\n    else:\n        b()\n", True),
        ("\n    if a:\n        return b\n    return a\n", False),
        ("\n    a, b\n", True),  # of names alone
        ("\n    for x in a:\n        x.y\n", True),
        ("\n    a()\n    a()\n", False),  # may do more each time
        ("\n    ...\n", False),  # a body must have something
        ('\n    "A string."\n', False),  # prose
        ("\n    return (\n", False),
    ],
)
def test_code_that_does_nothing(completion, idle):
    assert guards.has_idle_code("def f(a, b):", completion) == idle


def test_what_the_prompt_gives_is_not_the_body_s():
    prompt = "x = x\n\n\ndef f(a):\n    a = a\n"
    assert not guards.has_idle_code(prompt, "    return a\n")
    assert guards.has_idle_code(prompt, "    a = a\n")


def test_what_does_not_parse_has_no_body():
    assert guards.body_of("def f(a):", "\n    return (\n") is None
    assert guards.body_of("def f(a):", "") is None
