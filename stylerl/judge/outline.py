"""What of a file the bodies of its functions depend on, as rows of code.

flake8's own rules look beyond a function for four things: what its module
binds its names to (pyflakes), whether the module's annotations are postponed,
the character that indents the file (pycodestyle), and the names of the
classes around it (mccabe).  An outline states these and leaves the rest out.
Where another thing could count it has no answer, and the file is judged
whole.  It is plain data, made once a file.
"""

import ast
import json
import re
import warnings
from typing import Any, NamedTuple

from pyflakes.checker import (
    Annotation,
    Builtin,
    Checker,
    ClassDefinition,
    ClassScope,
    FunctionDefinition,
    FutureImportation,
    Importation,
    StarImportation,
)

UNKNOWN = "?"  # of a name: what it is bound to depends on the order
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
INDENTED = re.compile(r"^[ \t]", re.MULTILINE)


class Nest(NamedTuple):
    """The classes around a function."""

    headers: list[str]  # their rows, outermost first
    own: str  # what the outermost of them, or the function, is called
    hiding: list[str]  # names of theirs that the module imports


class Outline(NamedTuple):
    """What a file's functions see of it."""

    first: list[str]  # rows of every skeleton
    names: dict[str, str]  # the module's: the row that binds it so; "" any
    functions: dict[int, Nest]  # by their row; those in nothing but classes

    @property
    def known(self) -> frozenset[str] | None:
        """The names of the module; None where a star import hides some."""
        if any(row.endswith("*") for row in self.first):
            return None
        return frozenset(self.names)

    def skeleton(
        self, nest: Nest, mentioned: set[str], bound: set[str]
    ) -> list[str] | None:
        """The rows that stand for all above a function.

        Args:
            nest: the classes around it.
            mentioned: the names that the function mentions.
            bound: those of them that its body binds.

        Returns:
            rows; None where they might say something else than the file.
        """
        if not mentioned.isdisjoint(nest.hiding):
            return None
        rows, values = [], []
        for name in sorted(mentioned & self.names.keys() - {nest.own}):
            binding = self.names[name]
            if binding == UNKNOWN or (binding and name in bound):
                return None
            if binding:
                rows.append(binding)
            else:
                values.append(name)
        if values:
            rows.append(" = ".join([*values, "0"]))
        return [*self.first, *rows, *nest.headers]

    def dumps(self) -> str:
        """The outline as JSON."""
        return json.dumps(self)

    @classmethod
    def loads(cls, text: str) -> "Outline":
        """The outline that `dumps` wrote."""
        first, names, functions = json.loads(text)
        nests = {int(row): Nest(*nest) for row, nest in functions.items()}
        return cls(first, names, nests)


def outline(tree: ast.Module, text: str, path: str) -> Outline:
    """The outline of a file.

    Args:
        tree: of the text; its functions lose their bodies.
        text: the file.
        path: its name.
    """
    # --- what the module binds ---
    around = _without_bodies(tree, "global" in text or "nonlocal" in text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checker = _Watching(tree, filename=path)
    # sorted: builtins that it binds stand in the order of pyflakes' set
    module = {
        name: binding
        for name, binding in sorted(checker.module.items())
        if not isinstance(binding, Builtin)
    }
    first = [
        binding.source_statement
        for kind in (FutureImportation, StarImportation)
        for binding in module.values()
        if isinstance(binding, kind)
    ]
    if indented := INDENTED.search(text):
        first.insert(0, f"{indented[0]}#")
    names = {
        name: _row(name, binding)
        for name, binding in module.items()
        if not isinstance(binding, FutureImportation | StarImportation)
    }
    # --- its functions ---
    imported = {n for n, b in module.items() if isinstance(b, Importation)}
    lines = text.split("\n")
    functions: dict[int, Nest] = {}
    for node, classes in around:
        own = (classes or [node])[0].name
        scopes = checker.around.get(node.lineno, [])
        inner = {n: b for s in scopes for n, b in s.items()}
        if (
            len(scopes) == len(classes)
            and all(isinstance(scope, ClassScope) for scope in scopes)
            and isinstance(
                module.get(own), ClassDefinition | FunctionDefinition
            )
            and not any(isinstance(b, Importation) for b in inner.values())
        ):
            headers = [
                f"{lines[each.lineno - 1][: each.col_offset]}"
                f"class {each.name}:"
                for each in classes
            ]
            hiding = sorted(inner.keys() & imported)
            functions[node.lineno] = Nest(headers, own, hiding)
    return Outline(first, names, functions)


def parse(source: str) -> ast.Module:
    """The tree of a source, without a word of what Python warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _row(name: str, binding: Any) -> str:
    """A row that binds a name as the module does."""
    if isinstance(binding.source, ast.Global | ast.Nonlocal):
        return UNKNOWN
    if isinstance(binding, Annotation):
        return f"{name}: 0"
    if type(binding) is Importation and binding.fullName != name:
        return f"import {binding.fullName} as {name}"
    if isinstance(binding, Importation):
        return str(binding.source_statement)
    return ""


def _without_bodies(
    tree: ast.Module, has_globals: bool
) -> list[tuple[Any, list[ast.ClassDef]]]:
    """Empty all functions; those in nothing but classes, and the classes.

    What is declared global in one stays in it.
    """
    found = []
    waiting: list[tuple[ast.AST, list[ast.ClassDef] | None]] = [(tree, [])]
    while waiting:
        node, classes = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                if classes is not None:
                    found.append((child, classes))
                kept = [
                    each
                    for each in (ast.walk(child) if has_globals else ())
                    if isinstance(each, ast.Global | ast.Nonlocal)
                ]
                child.body = [*kept] or [ast.Pass()]
            elif isinstance(child, ast.ClassDef):
                inner = None if classes is None else [*classes, child]
                waiting.append((child, inner))
            elif isinstance(
                child, ast.stmt | ast.excepthandler | ast.match_case
            ):
                waiting.append((child, None))
    return found


class _Watching(Checker):
    """pyflakes' checker, which notes the scopes around each function."""

    def __init__(self, tree: ast.Module, filename: str) -> None:
        self.around: dict[int, list[Any]] = {}
        self.module: Any = {}
        super().__init__(tree, filename=filename)

    def FUNCTIONDEF(self, node: Any) -> None:  # noqa: N802 - pyflakes' name
        """Note the scopes before the function is looked at."""
        self.module, *inner = self.scopeStack
        self.around[node.lineno] = inner
        super().FUNCTIONDEF(node)

    ASYNCFUNCTIONDEF = FUNCTIONDEF
