"""Whether a completion is right: the problem's tests, asked of a sandbox.

The tests run here, and see of the generated code only the values that its
calls return: the sandbox never reads them, so that what it may do to itself
is of no use.  What runs here is HumanEval's own, from a wheel whose digest is
pinned.
"""

import ast
from collections.abc import Callable
from typing import Any

from stylerl.skill.problems import Problem
from stylerl.skill.sandbox import Sandbox


class Wrong(Exception):
    """A call gave no value."""


def is_right(
    problem: Problem, completion: str, start: Callable[[str], Sandbox]
) -> bool:
    """Whether a completion passes the tests of its problem.

    Args:
        problem: with the tests, and the text that was completed.
        completion: what follows `problem.prompt`.
        start: a sandbox with its first line.
    """
    source = problem.prompt + completion
    try:
        with start(repr((source, problem.name))) as sandbox:
            _test(problem, _Candidate(sandbox))
    except Exception:  # of an assertion, of a comparison with another type
        return False
    return True


def _test(problem: Problem, candidate: "_Candidate") -> None:
    """Run the tests; they may call what stands in the prompt."""
    space: dict[str, Any] = {"__name__": "tests"}
    exec(compile(problem.tests, problem.id, "exec"), space)
    space["check"](candidate)


class _Candidate:
    """The function in the sandbox, called like one here."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def __call__(self, *arguments: Any) -> Any:
        """The value; what is no literal is none.

        Raises:
            Gone: the sandbox does not answer.
            Wrong: the call raised, or its value is no literal.
        """
        try:
            answer = ast.literal_eval(self.sandbox.ask(repr(arguments)))
            if not isinstance(answer, str) or answer[:1] != "=":
                raise Wrong("the call raised")
            return ast.literal_eval(answer[1:])
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise Wrong("the value is no literal") from error
