"""What of a file the bodies of its functions depend on, as rows of code.

flake8's own rules look beyond a function for five things: what its module
binds its names to (pyflakes), whether the module's annotations are postponed,
the character that indents the file (pycodestyle), the classes and branches
around it, and whether a later function has its name (mccabe).  An outline
states these and leaves the rest out.  Where another thing could count it has
no answer, and the file is judged whole.  It is plain data, made once a file.
"""

import ast
import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from pyflakes.checker import (
    Annotation,
    Builtin,
    Checker,
    ClassScope,
    FutureImportation,
    Importation,
    StarImportation,
    TypeScope,
)

UNKNOWN = "?"  # of a name: what it is bound to depends on the order
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Statements that functions stand in, as pyflakes and mccabe tell them apart.
HEADERS = {
    ast.If: "if 0:",
    ast.While: "if 0:",
    ast.For: "for 0[0] in 0:",
    ast.Try: "for 0[0] in 0:",
    ast.With: "with 0:",
}


class Nest(NamedTuple):
    """The classes, and other statements, around a function."""

    headers: list[str]  # their rows, outermost first
    own: str  # what the outermost class, or the function, is called
    hiding: list[str]  # names of the classes that the module imports
    again: str = ""  # its name, if mccabe sees a later one of that name

    @property
    def forks(self) -> bool:
        """Whether it is in one of several branches, or may be."""
        return any(
            not row.lstrip().startswith("class") for row in self.headers
        )


class Outline(NamedTuple):
    """What a file's functions see of it."""

    first: list[str]  # rows of every skeleton
    names: dict[str, str]  # the module's: the row that binds it so; "" any
    functions: dict[int, Nest]  # by their row

    @property
    def known(self) -> frozenset[str] | None:
        """The names of the module; None where a star import hides some."""
        if any(row.endswith("*") for row in self.first):
            return None
        return frozenset(self.names)

    def skeleton(
        self,
        nest: Nest,
        mentioned: set[str],
        bound: set[str],
        is_used: Callable[[str], bool],
    ) -> list[str] | str:
        """The rows that stand for all above a function.

        Args:
            nest: the classes and statements around it.
            mentioned: the names that the function mentions.
            bound: those of them that its body binds.
            is_used: whether the rest of the file uses an import.

        Returns:
            rows; a text where they might say something else than the file:
            why.
        """
        parts, values = [], []
        for name in sorted(mentioned & self.names.keys() - {nest.own}):
            binding = self.names[name]
            if binding == UNKNOWN:
                return "a name that only `global` binds"
            # A function's binding meets the class's before the module's.
            if not binding or name in nest.hiding:
                values.append(name)
                continue
            parts.append(binding)
            if name in bound:
                if nest.forks:
                    return "in a branch, and binds an import"
                if is_used(name):
                    parts.append(name)
        if values:
            parts.append(" = ".join([*values, "0"]))
        # One row: pycodestyle's time goes by logical lines.
        rows = ["; ".join(parts)] if parts else []
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
    names = {
        name: _row(name, binding)
        for name, binding in module.items()
        if not isinstance(binding, FutureImportation | StarImportation)
    }
    # --- its functions ---
    imported = {n for n, b in module.items() if isinstance(b, Importation)}
    lines = text.split("\n")
    functions: dict[int, Nest] = {}
    last = {_qualified(*each): each[0].lineno for each in around}
    for node, nest in around:
        classes = [each for each in nest if isinstance(each, ast.ClassDef)]
        own = (classes or [node])[0].name
        scopes = checker.around.get(node.lineno, [])
        inner = {n: b for s in scopes for n, b in s.items()}
        hiding = sorted(inner.keys() & imported)
        if (
            len(scopes) == len(classes)
            and all(isinstance(scope, ClassScope) for scope in scopes)
            and names.get(own) == ""
            and not any(isinstance(b, Importation) for b in inner.values())
            and not any(_is_declared(inner[name]) for name in hiding)
        ):
            again = last[_qualified(node, nest)] > node.lineno
            functions[node.lineno] = Nest(
                _headers(nest, lines), own, hiding, node.name if again else ""
            )
    return Outline(first, names, functions)


def is_used(name: str, text: str, row: int = 0) -> bool:
    """Whether a module uses a name that it binds.

    Args:
        name: the name.
        text: the module.
        row: the first row of a function whose body does not count.
    """
    tree = parse(text)
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and node.lineno == row:
            node.body = [ast.Pass()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = _Watching(tree, filename="").module
    exported = getattr(module.get("__all__"), "names", ())
    return bool(name in exported or (name in module and module[name].used))


def parse(source: str) -> ast.Module:
    """The tree of a source, without a word of what Python warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _row(name: str, binding: Any) -> str:
    """A row that binds a name as the module does."""
    if _is_declared(binding):
        return UNKNOWN
    if isinstance(binding, Annotation):
        return f"{name}: 0"
    if type(binding) is Importation and binding.fullName != name:
        return f"import {binding.fullName} as {name}"
    if isinstance(binding, Importation):
        return str(binding.source_statement)
    return ""


def _is_declared(binding: Any) -> bool:
    """Whether a global or nonlocal statement made a binding."""
    return isinstance(binding.source, ast.Global | ast.Nonlocal)


def _headers(nest: list[Any], lines: list[str]) -> list[str]:
    """Rows for the statements around a function, outermost first."""
    found: dict[str, str] = {}  # by indentation, which an elif has from its if
    for each in nest:
        indent = lines[each.lineno - 1][: each.col_offset]
        header = HEADERS.get(type(each)) or f"class {each.name}:"
        found[indent] = indent + header
    return [*found.values()]


def _qualified(node: Any, nest: list[Any]) -> tuple[str, ...]:
    """What mccabe calls a function; it has no name for one in a branch."""
    if any(not isinstance(each, ast.ClassDef | ast.With) for each in nest):
        return ("", str(node.lineno))
    return *(e.name for e in nest if isinstance(e, ast.ClassDef)), node.name


def _without_bodies(
    tree: ast.Module, has_globals: bool
) -> list[tuple[Any, list[Any]]]:
    """Empty all functions; each, by row, with the statements around it.

    What is declared global in one stays in it.  Those in statements that are
    neither classes nor in HEADERS are left out.
    """
    found = []
    waiting: list[tuple[ast.AST, list[ast.AST] | None]] = [(tree, [])]
    while waiting:
        node, nest = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                if nest is not None:
                    found.append((child, nest))
                kept = [
                    each
                    for each in (ast.walk(child) if has_globals else ())
                    if isinstance(each, ast.Global | ast.Nonlocal)
                ]
                child.body = [*kept] or [ast.Pass()]
            elif isinstance(child, ast.excepthandler):
                waiting.append((child, nest))
            elif isinstance(child, ast.stmt | ast.match_case):
                known = isinstance(child, (ast.ClassDef, *HEADERS))
                inner = [*nest, child] if known and nest is not None else None
                waiting.append((child, inner))
    return sorted(found, key=lambda each: each[0].lineno)


class _Watching(Checker):
    """pyflakes' checker, which notes the scopes around each function."""

    def __init__(self, tree: ast.Module, filename: str) -> None:
        self.around: dict[int, list[Any]] = {}
        self.module: Any = {}
        super().__init__(tree, filename=filename)

    def FUNCTIONDEF(self, node: Any) -> None:  # noqa: N802 - pyflakes' name
        """Note the scopes before the function is looked at."""
        self.module, *inner = self.scopeStack
        # From Python 3.12 on each class has one, for its type parameters.
        self.around[node.lineno] = [
            scope
            for scope in inner
            if scope or not isinstance(scope, TypeScope)
        ]
        super().FUNCTIONDEF(node)

    ASYNCFUNCTIONDEF = FUNCTIONDEF
