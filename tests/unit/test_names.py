"""Names that a completion reads, and those that resolve."""

import pytest

from stylerl.judge.names import Names, resolved_names

PROMPT = "def f(x, y=limit):"
# body, names of the module, (names read, names that resolve)
CASES = {
    "argument": ("return x", (), (1, 1)),
    "constant": ("return 1", (), (0, 0)),
    "builtin": ("return len(x)", (), (2, 2)),
    "of the module": ("return helper(x)", {"helper"}, (2, 2)),
    "of nowhere": ("return helper(x)", (), (2, 1)),
    "each once": ("return g(g(g(x, x), x))", (), (2, 1)),
    "attributes are none": ("return x.helper.other", (), (1, 1)),
    "imported": ("import os\n    return os.sep", (), (1, 1)),
    "assigned": ("z = x\n    return z", (), (2, 2)),
    "nested function": ("def g():\n        return x + w", (), (2, 1)),
    "comprehension": ("return [a + b for a in x]", (), (3, 2)),
    "bound by global": ("global z\n    z = x\n    return z", (), (2, 2)),
    "read by global": ("global z\n    return z", (), (1, 0)),
    "read by the header too": ("return limit + other", (), (2, 0)),
    "of one scope and not of another": (
        "return [k for k in x], k", (), (3, 2),
    ),
    "unparsable": ("return helper(", (), (0, 0)),
    "after the function": ("return x\n\n\nhelper(f)", {"f"}, (3, 2)),
    "recursion": ("return f(x)", {"f"}, (2, 2)),
    "a method's own name": ("return f(x)", (), (2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_resolved_names(case: str) -> None:
    body, known, expected = CASES[case]
    found = resolved_names(PROMPT, f"\n    {body}\n", known)
    assert found == Names(*expected)


def test_docstring_and_method() -> None:
    prompt = 'def f(self):\n    """Say it."""'
    found = resolved_names(prompt, "\n    return super().f(__class__)\n")
    # super and __class__; `f` is an attribute
    assert found == Names(2, 2)
