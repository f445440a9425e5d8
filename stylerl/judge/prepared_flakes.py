"""pyflakes with the builtins bound once, instead of once a source.

pyflakes binds each of Python's builtin names for every source, which takes
longer than all that it then does with a short function.  The checker below
lets pyflakes bind them once and copies the scope.
"""

import ast
import contextlib
from collections.abc import Iterator
from typing import Any

from flake8.plugins.pyflakes import FlakesChecker
from pyflakes.checker import Checker


class PreparedFlakes(FlakesChecker):
    """flake8's plugin for pyflakes, with the builtins bound in advance."""

    def __init__(self, tree: ast.AST, filename: str) -> None:
        self._checker = _PreparedChecker(
            tree,
            filename=filename,
            builtins=self._builtins,
            withDoctest=self._with_doctest,
        )

    @classmethod
    def prepare(cls) -> None:
        """Bind the builtins; to be called when flake8's options are set."""
        empty = Checker(ast.parse(""), builtins=cls._builtins)
        (scope,) = empty.deadScopes
        _PreparedChecker.bound = dict(scope)


class _PreparedChecker(Checker):
    """pyflakes' checker, whose module scope starts with the builtins."""

    bound: dict[str, Any] = {}

    @property
    def builtIns(self) -> frozenset[str]:  # noqa: N802 - pyflakes' name
        """Names still to be bound one by one: none."""
        return frozenset()

    @builtIns.setter
    def builtIns(self, names: frozenset[str]) -> None:  # noqa: N802
        pass

    @contextlib.contextmanager
    def in_scope(self, cls: type) -> Iterator[None]:
        """Enter a scope; the first one is the module's."""
        with super().in_scope(cls):
            if not self.deadScopes and len(self.scopeStack) == 1:
                for binding in self.bound.values():
                    binding.used = False
                self.scope.update(self.bound)
            yield
