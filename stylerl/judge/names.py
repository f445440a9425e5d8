"""Whether the names that a completion reads are defined.

    resolved_names("def f(x):", "\\n    return g(x)\\n", {"g"})   # 2 of 2

A name resolves where Python would look it up: in the function and those
around it, in its module (`known`, and what prompt and completion bind there),
or among the builtins.  Each name counts once, or twice where it is of the
module in one place and of a function in another, so that reading one that is
there again and again hides none that is not.  Code is compiled to a symbol
table, never run.
"""

import ast
import builtins
import symtable
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from stylerl.judge.positions import end_of

# What a module, a class and a method have without binding it.
GIVEN = frozenset(
    (*dir(builtins), "__file__", "__class__", "__module__", "__qualname__")
)


class Names(NamedTuple):
    """The different names that a completion reads, and those that exist."""

    read: int  # 0 where it does not parse, or reads none
    resolved: int


def resolved_names(
    prompt: str, completion: str, known: Collection[str] = ()
) -> Names:
    """Count the names that a completion reads, and those that resolve.

    Args:
        prompt: a function's header, with or without a docstring.
        completion: what follows it.
        known: the names that the function's module binds.
    """
    source = prompt + completion
    try:
        tree = parse(source)
        everywhere, bound = _read(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Names(0, 0)
    # 1. What is read behind the prompt.
    end = end_of(prompt)
    written = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if (node.lineno, node.col_offset) >= end
    }
    names = [read for read in everywhere if read[0] in written]
    # 2. The function's own name is the module's, or else its class's.
    bound -= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.lineno, node.col_offset) < end
    }
    missing = [
        name
        for name, is_global in names
        if is_global and not (name in bound or name in GIVEN or name in known)
    ]
    return Names(len(names), len(names) - len(missing))


def module_names(source: str) -> frozenset[str] | None:
    """The names that a module binds; None where a star import hides some."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return None
    return frozenset(_read(source)[1])


def parse(source: str) -> ast.Module:
    """The tree of a source, without a word of what Python warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def tree_of(source: str) -> ast.Module | None:
    """The tree of a source; None where it does not parse."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return parse(source)
    return None


def _read(source: str) -> tuple[set[tuple[str, bool]], set[str]]:
    """The (name, is global) that are read, and what the module binds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(source, "snippet", "exec")
    read, bound = set(), set()
    for table in _tables(top):
        for symbol in table.get_symbols():
            in_module = table is top or symbol.is_global()
            if symbol.is_referenced():
                read.add((symbol.get_name(), in_module))
            if in_module and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
    return read, bound


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
