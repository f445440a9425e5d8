"""Which names of a body matter: what they carry, and who reads them.

One graph answers both, as in a compiler's analysis of reaching definitions
and liveness, without regard to order.  Its nodes are names, conditions and
the body's effect; an arrow leads from each to what it is made of.  A name
*carries* something if a path leads from it to an input: a parameter, or a
name of the module around.  It is *live* if a path leads to it from the
effect: what is returned, raised, yielded, stored in an object or called.
"""

import ast
import builtins
import io
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

BUILTINS = frozenset(dir(builtins))
ATTRIBUTES = frozenset(  # of builtin types, and of the files that open gives
    name
    for kind in (*vars(builtins).values(), io.TextIOWrapper)
    for name in dir(kind)
)
WORLD = frozenset(("input", "locals", "globals", "open", "super"))
DEEP = 60  # levels of nesting; what lies deeper counts nothing
EFFECT = "return"  # a keyword, so no name
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class At(NamedTuple):
    """Where a statement stands."""

    under: str = ""  # the condition that it runs under, a node
    sink: str = EFFECT  # the node for whose sake it runs
    depth: int = 0


class Flow:
    """The graph of one body."""

    def __init__(self, free: Collection[str] | None) -> None:
        """Begin with no statement.

        `free` are the names of the module around and, after a dot, the
        attributes of its file; None if they are not known, and every free
        name and every attribute may be one.
        """
        self.free = free
        self.made_of: dict[str, set[str]] = {EFFECT: set()}
        self.inputs = set(WORLD)
        self.exports: set[str] = set()  # names that outlive the body
        self.carrying: set[str] = set()
        self.live: set[str] = set()
        self._conditions = 0
        self._read: dict[ast.AST, set[str]] = {}

    def close(self) -> None:
        """Follow the arrows, once all statements are in."""
        read = set().union(*self.made_of.values())
        unbound = read - self.made_of.keys() - self.inputs - {""}
        if self.free is None:
            self.inputs |= unbound - BUILTINS
        else:
            self.inputs |= unbound.intersection(self.free)
        self.live = _reached({EFFECT}, self.made_of)
        users: dict[str, set[str]] = {}
        for name, parts in self.made_of.items():
            for part in parts:
                users.setdefault(part, set()).add(name)
        self.carrying = _reached(self.inputs, users)

    def has(self, attribute: str) -> bool:
        """Whether something may have an attribute."""
        if self.free is None or attribute in ATTRIBUTES:
            return True
        return f".{attribute}" in self.free

    def parameters(self, spec: ast.arguments) -> None:
        """Make a function's parameters inputs."""
        self.inputs.update(names_of(spec))

    def export(self, names: Collection[str]) -> None:
        """Make binding some names an effect."""
        self.exports.update(names)
        self.made_of[EFFECT].update(names)

    def block(self, body: Sequence[ast.stmt], at: At) -> None:
        """Add the statements of a block."""
        if at.depth <= DEEP:
            inside = at._replace(depth=at.depth + 1)
            for node in reachable(body):
                self._statement(node, inside)

    def _statement(self, node: ast.stmt, at: At) -> None:
        """Add what one statement binds, decides or does."""
        match node:
            # What binds names, or decides whether a block runs.
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                if node.value is not None:
                    made_of = self.reads(node.value) | {at.under}
                    for target in targets_of(node):
                        self._bind(target, at, made_of)
            case ast.For() | ast.AsyncFor():
                inner = self._condition(at, node.iter)
                self._bind(node.target, inner, {inner.under})
                self._blocks(node, inner)
            case ast.If() | ast.While():
                self._blocks(node, self._condition(at, node.test))
            case ast.With() | ast.AsyncWith():
                context = [each.context_expr for each in node.items]
                inner = self._condition(at, *context)
                for each in node.items:
                    if each.optional_vars:
                        self._bind(each.optional_vars, inner, {inner.under})
                self._blocks(node, inner)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._definition(node, at)
            case ast.Import() | ast.ImportFrom():
                self.inputs.update(
                    (each.asname or each.name).partition(".")[0]
                    for each in node.names
                )
            case ast.Global() | ast.Nonlocal():
                self.export(node.names)
            case ast.Try() | ast.TryStar():
                self._try(node, at)
            case ast.Match():
                self._match(node, at)
            # What does nothing, and then all that has an effect.
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.Expr(value) if not _acts(value):
                self.reads(value)  # binds what a walrus in it binds
            case ast.Delete(targets) if all(
                isinstance(each, ast.Name) for each in targets
            ):
                pass
            case _:
                self.made_of[at.sink] |= self.reads(node) | {at.under}

    def _bind(self, target: ast.expr, at: At, made_of: set[str]) -> None:
        """Give names a value; what is stored elsewhere is an effect."""
        for each in leaves(target):
            if isinstance(each, ast.Name):
                self._make(each.id, made_of)
            else:
                self.made_of[at.sink] |= (
                    made_of | self.reads(each) | {at.under}
                )

    def _make(self, name: str, parts: Collection[str]) -> None:
        """Add to what a name is made of."""
        self.made_of.setdefault(name, set()).update(parts)

    def _condition(self, at: At, *tests: ast.expr) -> At:
        """A node that is live where something under it is."""
        self._conditions += 1
        name = f"if {self._conditions}"  # a blank, so no name
        self.made_of[name] = {at.under}.union(*map(self.reads, tests))
        return at._replace(under=name)

    def _blocks(self, node: ast.stmt, at: At) -> None:
        for body in branches(node):
            self.block(body, at)

    def _definition(self, node: Definition, at: At) -> None:
        """Add a definition: what it does is done where its name is read."""
        own = self.made_of.setdefault(node.name, set())
        own.add(at.under)
        read = list(node.decorator_list)
        if isinstance(node, ast.ClassDef):
            read += node.bases
        else:
            self.parameters(node.args)
            defaults = (*node.args.defaults, *node.args.kw_defaults)
            read += filter(None, defaults)
        own.update(*map(self.reads, read))
        self.block(node.body, At(node.name, node.name, at.depth))
        if isinstance(node, ast.ClassDef):
            own |= bound_in(node.body)

    def _match(self, node: ast.Match, at: At) -> None:
        inner = self._condition(at, node.subject)
        for pattern in ast.walk(node):
            name = getattr(pattern, "name", None)
            if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and name:
                self._make(name, {inner.under})
        for case in node.cases:
            guards = [case.guard] if case.guard else []
            self.block(case.body, self._condition(inner, *guards))

    def _try(self, node: ast.Try | ast.TryStar, at: At) -> None:
        """Add a try, whose handlers depend on its body."""
        self.block(node.body, at)
        inner = self._condition(at)
        self._make(inner.under, set().union(*map(self.reads, node.body)))
        for handler in node.handlers:
            if handler.name:
                self._make(handler.name, {inner.under})
            if handler.type:
                self._make(inner.under, self.reads(handler.type))
            self.block(handler.body, inner)
        self.block(node.orelse, at)
        self.block(node.finalbody, at)

    def reads(self, node: ast.AST) -> set[str]:
        """The names that some code reads; what it binds inside is added.

        Each node once, or comprehensions in comprehensions would take twice
        as long with every level.
        """
        if node in self._read:
            return self._read[node]
        found: set[str] = set()
        arguments: list[str] = []
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, ast.Name):
                if isinstance(each.ctx, ast.Load):
                    found.add(each.id)
                continue
            if isinstance(each, ast.comprehension):
                for name in names_in(each.target):
                    self._make(name, self.reads(each.iter))
            elif isinstance(each, ast.NamedExpr):
                self._make(each.target.id, self.reads(each.value))
            elif isinstance(each, ast.Lambda):
                arguments += names_of(each.args)
            stack.extend(ast.iter_child_nodes(each))
        for name in arguments:
            self._make(name, found)
        self._read[node] = found
        return found


def names_of(spec: ast.arguments) -> list[str]:
    """The names of a function's parameters."""
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    every += [each for each in (spec.vararg, spec.kwarg) if each]
    return [each.arg for each in every]


def reachable(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block up to one that leaves it."""
    for node in body:
        yield node
        if isinstance(node, _ENDS):
            return


def ends(body: Sequence[ast.stmt]) -> bool:
    """Whether a block is always left."""
    return any(isinstance(node, _ENDS) for node in body)


def branches(node: ast.AST) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The body and the else of a statement; empty where never entered."""
    body, orelse = getattr(node, "body", []), getattr(node, "orelse", [])
    if isinstance(node, (ast.If, ast.While)):
        truth = literal_truth(node.test)
        return (
            [] if truth is False else body,
            [] if truth is True else orelse,
        )
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return ([] if literal_truth(node.iter) is False else body), orelse
    return body, orelse


def literal_truth(test: ast.expr) -> bool | None:
    """Whether a test that is written out holds; None if it is not."""
    match test:
        case ast.Constant(value):
            return bool(value)
        case ast.UnaryOp(ast.Not(), operand):
            truth = literal_truth(operand)
            return None if truth is None else not truth
        case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
            return bool(elts)
        case ast.Dict(keys):
            return bool(keys)
        case _:
            return None


def leaves(target: ast.expr) -> Iterator[ast.expr]:
    """What an assignment's target names, its tuples taken apart."""
    stack = [target]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Tuple, ast.List)):
            stack.extend(reversed(node.elts))
        elif isinstance(node, ast.Starred):
            stack.append(node.value)
        else:
            yield node


def names_in(target: ast.expr) -> Iterator[str]:
    """The names among the leaves of an assignment's target."""
    return (leaf.id for leaf in leaves(target) if isinstance(leaf, ast.Name))


def targets_of(
    node: ast.Assign | ast.AugAssign | ast.AnnAssign,
) -> list[ast.expr]:
    """What an assignment gives a value."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def bound_in(body: Sequence[ast.stmt]) -> set[str]:
    """The names that the statements of a block bind, at its own level."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            found.update(*map(names_in, targets_of(node)))
    return found


def _acts(value: ast.expr) -> bool:
    """Whether a bare expression does something."""
    return isinstance(value, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom))


def _reached(start: set[str], arrows: dict[str, set[str]]) -> set[str]:
    """All that some nodes lead to, themselves included."""
    found, stack = set(start), list(start)
    while stack:
        fresh = arrows.get(stack.pop(), set()) - found
        found |= fresh
        stack.extend(fresh)
    return found
