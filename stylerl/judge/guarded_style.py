"""pycodestyle's checks, each run only on lines where it can find something.

flake8 gives every logical line to every check.  Some look for what few lines
hold; a test before them that never says no wrongly saves a sixth of the time.
"""

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from flake8.plugins import pycodestyle as plugin

Test = Callable[[str], bool]


@lru_cache(1)  # asked by three checks of one line
def _is_spaced_out(line: str) -> bool:
    """Whether the line has white space that is not one plain blank."""
    return " ".join(line.split()) != line


# What a logical line must hold for pycodestyle's check to report anything.
TESTS: dict[str, Test] = {
    "comparison_negative": lambda line: "not" in line,
    "comparison_to_singleton": lambda line: "==" in line or "!=" in line,
    "comparison_type": lambda line: "type" in line,
    "whitespace_around_comma": _is_spaced_out,
    "whitespace_around_keywords": _is_spaced_out,
    "whitespace_around_named_parameter_equals": lambda line: "=" in line,
    "whitespace_around_operator": _is_spaced_out,
}
# Checks that look for a single rule, which is often ignored.
RULES = {
    "break_after_binary_operator": "W504",
    "break_before_binary_operator": "W503",
}


def install(reported: Callable[[str], bool]) -> None:
    """Put the tests before the checks, for all of this process.

    Args:
        reported: whether a rule can be reported at all.
    """
    for name, test in TESTS.items():
        _guard(name, test)
    for name, rule in RULES.items():
        counts = reported(rule)
        _guard(name, lambda line, counts=counts: counts)  # type: ignore[misc]


def _guard(name: str, test: Test) -> None:
    check = getattr(sys.modules["pycodestyle"], name)

    def guarded(line: str, *more: Any) -> Iterable[Any]:
        return check(line, *more) if test(line) else ()

    setattr(plugin, f"_{name}", guarded)
