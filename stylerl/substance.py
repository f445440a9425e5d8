"""How much a completion says: statements that do something, once each.

A clean but empty body pleases every linter.  Counted here are the statements
of the body that the prompt opened (the last `def` or `class` that begins in
it), nested ones included, from the end of the prompt on.  Not counted are
`pass`, `...`, docstrings and other bare constants or names, `return` and
`return None`, `raise NotImplementedError`, `global` and `nonlocal`, and a
statement that stood before, word for word.  Comments are no statements.
Code is parsed, never run.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Position = tuple[int, int]  # row from 1, column from 0 in bytes


class Substance(NamedTuple):
    """What a completion holds, whatever its style."""

    parsed: bool
    statements: int  # distinct statements that do something; 0 if not parsed
    trivial: bool  # parsed, and nothing in it does anything


def measure(prompt: str, completion: str) -> Substance:
    """Count the statements that the completion adds to the prompt's body.

    A prompt without `def` or `class` opens no body; then every statement of
    the completion counts.
    """
    try:
        added = _added(prompt, completion)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Substance(parsed=False, statements=0, trivial=False)
    return Substance(True, len(added), trivial=not added)


def share_of_expected(statements: int, expected: float) -> float:
    """Substance as a reward: statements over those expected, at most 1.

    Nothing is gained by writing more than the reference does.
    """
    return min(1.0, statements / max(expected, 1.0))


def expected_statements(
    samples: Mapping[str, list[tuple[str, bool]]],
) -> dict[str, float]:
    """What the reference writes for each prompt, to measure others by.

    `samples` are its completions of each prompt, and whether each was
    finished.  One sample says little about a prompt, so the mean of a
    prompt's n usable samples is drawn to the mean of all by the weight of
    one sample: (sum + overall) / (n + 1).  Those that do not parse are left
    out; where none is left, 1.
    """
    counts = {
        prompt: [
            found.statements
            for text, finished in texts
            if finished and (found := measure(prompt, text)).parsed
        ]
        for prompt, texts in samples.items()
    }
    every = [count for found in counts.values() for count in found]
    overall = max(1.0, sum(every) / len(every)) if every else 1.0
    return {
        prompt: (sum(found) + overall) / (len(found) + 1)
        for prompt, found in counts.items()
    }


def _added(prompt: str, completion: str) -> set[str]:
    """The completion's statements in the opened body, as text, once each.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as Python
    does, for what it cannot parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(prompt + completion)
    end = _end(prompt)
    return {
        ast.dump(node)
        for node in ast.walk(_opened(tree, end))
        if isinstance(node, ast.stmt)
        and _position(node) >= end
        and not _is_idle(node)
    }


def _end(prompt: str) -> Position:
    """Where the completion begins."""
    last = prompt[prompt.rfind("\n") + 1 :]
    return prompt.count("\n") + 1, len(last.encode("utf-8", "replace"))


def _opened(tree: ast.Module, end: Position) -> ast.AST:
    """The last definition that begins before `end`; else the module."""
    found = [node for node in _definitions(tree) if _position(node) < end]
    return max(found, key=_position) if found else tree


def _definitions(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            yield node


def _position(node: ast.stmt) -> Position:
    return node.lineno, node.col_offset


def _is_idle(node: ast.stmt) -> bool:
    """Whether a statement does nothing worth a reward."""
    match node:
        case ast.Pass() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Constant() | ast.Name()):
            return True
        case ast.Return(value=None | ast.Constant(value=None)):
            return True
        case ast.Raise(
            exc=ast.Name(id="NotImplementedError")
            | ast.Call(func=ast.Name(id="NotImplementedError"))
        ):
            return True
        case _:
            return False
