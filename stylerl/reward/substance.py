"""How much a completion says: what does something, counted once.

A clean but empty body pleases every linter.  Counted here are the statements
of the body that the prompt opened (the last `def` or `class` that begins in
it), nested ones included, from the end of the prompt on.  Not counted are
`pass`, `...`, docstrings and other bare constants or names, `return` and
`return None`, `raise NotImplementedError`, `global` and `nonlocal`, and a
statement that repeats an earlier one, word for word.  Comments are no
statements.  Code is parsed, never run.
"""

import ast
import warnings
from collections.abc import Mapping
from typing import NamedTuple

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Position = tuple[int, int]  # row from 1, column from 0 in bytes


class Substance(NamedTuple):
    """What a completion holds, whatever its style."""

    parsed: bool
    statements: int  # distinct statements that do something; 0 if not parsed
    size: int  # expression nodes in them, each statement's once
    trivial: bool  # parsed, and nothing in it does anything


def measure(prompt: str, completion: str) -> Substance:
    """Count the statements that the completion adds to the prompt's body.

    A prompt without `def` or `class` opens no body; then every statement of
    the completion counts.
    """
    try:
        added = _added(prompt, completion)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Substance(parsed=False, statements=0, size=0, trivial=False)
    size = sum(added.values())
    return Substance(True, len(added), size, trivial=not added)


def share_of_expected(size: int, expected: float) -> float:
    """Substance as a reward: the size over the one expected, at most 1.

    Nothing is gained by writing more than that.
    """
    return min(1.0, size / max(expected, 1.0))


def expected_sizes(samples: Mapping[str, list[str]]) -> dict[str, float]:
    """The size of what the reference writes for each prompt.

    `samples` are its completions of each prompt.  One that does not parse
    counts as its length makes likely: long ones fail more often, and
    leaving them out would ask for less than the reference writes.  One
    sample says little about a prompt, so the mean of a prompt's n samples
    is drawn to the mean of all by the weight of one: (sum + overall) /
    (n + 1).
    """
    found = {
        prompt: [(measure(prompt, text), len(text)) for text in texts]
        for prompt, texts in samples.items()
    }
    every = [pair for pairs in found.values() for pair in pairs]
    parsed = [(each.size, length) for each, length in every if each.parsed]
    written = max(1, sum(length for _, length in parsed))
    density = sum(size for size, _ in parsed) / written  # nodes a character
    sizes = {
        prompt: [
            float(each.size) if each.parsed else density * length
            for each, length in pairs
        ]
        for prompt, pairs in found.items()
    }
    overall = sum(map(sum, sizes.values())) / max(1, len(every))
    return {
        prompt: (sum(each) + overall) / (len(each) + 1)
        for prompt, each in sizes.items()
    }


def _added(prompt: str, completion: str) -> dict[str, int]:
    """The completion's statements in the opened body: text and size.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as Python
    does, for what it cannot parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(prompt + completion)
    end = _end(prompt)
    return {
        ast.dump(node): _size(node)
        for node in ast.walk(_opened(tree, end))
        if isinstance(node, ast.stmt)
        and _position(node) >= end
        and not _is_idle(node)
    }


def _size(node: ast.AST) -> int:
    """Nodes with a place in the source below a statement, or a part of one.

    Without those of statements inside it.  `x = f(y)` has 4: x, the call, f
    and y.  The statement itself counts nothing, or one long line would be
    worth less than two short ones.
    """
    return sum(
        hasattr(child, "lineno") + _size(child)
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, ast.stmt)
    )


def _end(prompt: str) -> Position:
    """Where the completion begins."""
    last = prompt[prompt.rfind("\n") + 1 :]
    return prompt.count("\n") + 1, len(last.encode("utf-8", "replace"))


def _opened(tree: ast.Module, end: Position) -> ast.AST:
    """The last definition that begins before `end`; else the module."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, DEFINITIONS) and _position(node) < end
    ]
    return max(found, key=_position) if found else tree


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
