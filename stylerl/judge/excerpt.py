"""The part of a file that decides the verdict on one of its functions.

flake8's own rules need little of it, and an older core takes a quarter of a
second to judge a thousand rows.  pycodestyle reads rows one after another,
so those of the function do, and the next one for the blank lines between.
pyflakes and mccabe read the syntax tree, in which other functions need no
bodies: a name that these use counts only where the function binds a name
that the file imports (F811), and one that they declare global only where
`global` stands in the file.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stylerl.judge.positions import indent_of
from stylerl.judge.verdict import Extent

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PARTS = ("body", "orelse", "finalbody", "handlers", "cases")
NO_CODE = re.compile(r"[ \t\f]*(#|$)")
DECLARED = re.compile(r"\b(?:global|nonlocal)\b")


class Window(NamedTuple):
    """Rows that stand for a file."""

    lines: list[str]
    shift: int  # what makes its rows those of the file
    indent_char: str | None  # that indents the file, once it is known


def find(
    tree: ast.Module, lines: Sequence[str], extent: Extent
) -> ast.stmt | None:
    """The function at these rows, if it is all that stands there.

    A body may close its function early, or go on into rows below.
    """
    for node in _statements(tree, extent.above + 1):
        if isinstance(node, FUNCTIONS) and node.lineno == extent.above + 1:
            end = node.end_lineno or 0
            rest = lines[end : extent.below]
            alone = end <= extent.below and all(map(NO_CODE.match, rest))
            # A blank row may end a statement that is to go on.
            goes_on = lines[extent.below - 1].endswith("\\\n")
            return node if alone and not goes_on else None
    return None


def prune(tree: ast.Module, lines: Sequence[str], statement: ast.stmt) -> None:
    """Empty the functions that do not matter to one of them."""
    if any(map(DECLARED.search, lines)):
        return
    others, imported = [], set()
    for node in _statements(tree, statement.lineno):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {_bound(alias) for alias in node.names}
        elif isinstance(node, FUNCTIONS) and not (
            node.lineno <= statement.lineno <= (node.end_lineno or 0)
        ):
            others.append(node)
    if imported.isdisjoint(map(_bound, ast.walk(statement))):
        for function in others:
            function.body = [ast.Pass(lineno=function.lineno, col_offset=0)]


def window(lines: Sequence[str], extent: Extent) -> Window:
    """The function's rows, in blocks that are indented as those around it."""
    above, below = extent.above, extent.below
    rows = [*lines[above : below + extent.joint]]
    indents = {indent_of(rows[0])}
    if len(rows) > extent.rows and not NO_CODE.match(rows[-1]):
        last = indent_of(rows[-1])  # of a statement, which may be long
        indents.add(last)
        rows[-1] = f"{last}0\n"
    blocks = [
        f"{indent}if 1:\n"
        for indent in sorted({"", *indents})
        if indent != indent_of(rows[0])
    ]
    indented = (row[0] for row in lines[:above] if row[0] in " \t")
    return Window([*blocks, *rows], above - len(blocks), next(indented, None))


def _statements(tree: ast.AST, row: int) -> Iterator[Any]:
    """The statements in no function, or in one that a row's is nested in."""
    for part in PARTS:
        for node in getattr(tree, part, ()):
            yield node
            if not isinstance(node, FUNCTIONS) or (
                node.lineno < row <= (node.end_lineno or 0)
            ):
                yield from _statements(node, row)


def _bound(node: ast.AST) -> str | None:
    """The name that a node binds in its scope, if any."""
    match node:
        case ast.alias():
            return node.asname or node.name.partition(".")[0]
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return node.id
        case ast.arg():
            return node.arg
        case ast.MatchMapping():
            return node.rest
        case _:  # functions, classes, `except as`, `case as`
            return getattr(node, "name", None)
