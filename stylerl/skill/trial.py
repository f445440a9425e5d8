"""Whether a completion is right: the problem's tests, asked of a sandbox.

The tests run here, and see of the generated code only the values that its
calls return: the sandbox never reads them, so that what it may do to itself
is of no use.  What runs here is HumanEval's own, from a wheel whose digest is
pinned.
"""

import ast
from typing import Any

from stylerl.skill import sandbox
from stylerl.skill.problems import Problem


def is_right(problem: Problem, completion: str) -> bool:
    """Whether a completion passes the tests of its problem.

    Args:
        problem: with the tests, and the text that was completed.
        completion: what follows `problem.prompt`.

    Raises:
        OSError: the machine starts no process.
    """
    source = problem.prompt + completion
    space: dict[str, Any] = {"__name__": "tests"}
    try:
        with sandbox.start(repr((source, problem.name))) as ask:
            # They may call what stands in the prompt.
            exec(compile(problem.tests, problem.id, "exec"), space)
            space["check"](lambda *arguments: _value(ask(repr(arguments))))
    except OSError:
        raise
    except Exception:  # of an assertion, of a comparison with another type
        return False
    return True


def _value(answer: str) -> Any:
    """What a call returned; what is no literal is none.

    Raises:
        ValueError: the call raised, or its value is no literal.
    """
    text = str(ast.literal_eval(answer))
    if text[:1] != "=":
        raise ValueError("the call raised")
    return ast.literal_eval(text[1:])
