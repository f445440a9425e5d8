"""What expressions say: pairs of an operation and what it is applied to.

Each has a label, its outermost operation.  A pair that was said before says
nothing new, so a chain of one operation, however long, is worth its first
link.  An expression that reads no input is a constant, whatever is done with
it, and a local name stands for what was last put in it.
"""

import ast
from collections.abc import Sequence
from typing import NamedTuple

from stylerl.reward.flow import BUILTINS, DEEP, Flow, names_in, names_of

CONSTANT = "constant"
UNKNOWN = "?"  # before a name that any word could be
NOTHING = "nothing"  # the operand of a call without arguments
CONVERSIONS = frozenset(
    ("bool", "dict", "float", "int", "list", "set", "str", "tuple")
)
LINKS = 2  # attributes of attributes that count


class Fact(NamedTuple):
    """One pair, and the statement that says it."""

    statement: int
    operation: str
    operand: str


class Values:
    """The pairs of the expressions read so far."""

    def __init__(self, flow: Flow, resolved: Sequence[str]) -> None:
        """Read nothing yet; `flow` knows what carries something.

        `resolved` are names that are known to exist, such as parameters.
        """
        self.flow = flow
        self.found: list[Fact] = []
        self.values = 0  # expressions read, a constant one as one
        self.statement = 0
        self.depth = -1  # levels of nesting around what is read
        self.labels = {name: name for name in resolved}

    def pair(self, operation: str, operand: str) -> None:
        pair = _without_name(operation), _without_name(operand)
        if pair[0] != pair[1]:
            self.found.append(Fact(self.statement, *pair))

    def carries(self, node: ast.AST) -> bool:
        """Whether some code reads a name that carries something."""
        carrying = self.flow.carrying
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, ast.Name):
                if each.id in carrying:
                    return True
            else:
                stack.extend(ast.iter_child_nodes(each))
        return False

    def label_of(self, node: ast.expr) -> str:
        """The label of an expression whose pairs are in already."""
        before = self.found, self.values, self.depth
        self.found, self.depth = [], 0
        label = self.value(node)
        self.found, self.values, self.depth = before
        return label

    def value(self, node: ast.expr) -> str:
        """Add the pairs of an expression; returns its outermost operation.

        One that reads no input is a constant.
        """
        if self.depth > DEEP:
            return CONSTANT
        before = self.values
        self.depth += 1
        label = self._operation(node)
        self.depth -= 1
        self.values = (before if label == CONSTANT else self.values) + 1
        return label

    def _operation(self, node: ast.expr) -> str:
        match node:
            # What stands for itself, or for what is in it.
            case ast.Constant():
                return CONSTANT
            case ast.Name(name):
                return self._name(name)
            case ast.Attribute(base, attr):
                return self._attribute(self.value(base), attr)
            case ast.Call():
                return self._call(node)
            case ast.Starred(inner):
                return self.value(inner)
            case ast.Await(inner):
                label = self.value(inner)
                if label != CONSTANT:
                    self.pair("await", label)
                return label
            case ast.NamedExpr(target, inner):
                label = self.value(inner)
                self.labels[target.id] = label
                return label
            # An operation and its parts, which are read below.
            case ast.Compare(left, ops, comparators):
                parts = [left, *comparators]
                name = type(ops[0]).__name__
            case ast.BoolOp(op, values):
                parts, name = values, type(op).__name__
            case ast.BinOp(left, op, right):
                parts, name = [left, right], type(op).__name__
            case ast.UnaryOp(op, operand):
                parts, name = [operand], type(op).__name__
            case ast.IfExp(test, body, orelse):
                parts, name = [test, body, orelse], "choice"
            case ast.Subscript(base, index):
                parts, name = [base, index], "[]"
            case ast.Dict(keys, values):
                parts = [key for key in keys if key] + values
                name = "dict"
            case ast.Lambda(spec, body):
                self.name_arguments(spec)
                if not names_of(spec):
                    return self.value(body)
                parts, name = [body], "lambda"
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, [node.elt])
            case ast.DictComp(key, value):
                return self._comprehension(node, [key, value])
            case _:
                parts = [
                    each
                    for each in ast.iter_child_nodes(node)
                    if isinstance(each, ast.expr)
                ]
                name = type(node).__name__
        return self._apply(node, name, parts)

    def _apply(
        self, node: ast.expr, name: str, parts: Sequence[ast.expr]
    ) -> str:
        """An operation on parts; a constant if all of these are."""
        if len(parts) > 1 and (one := _one_name(parts)):
            if isinstance(node, (ast.Compare, ast.BinOp)):
                return CONSTANT
            if isinstance(node, (ast.BoolOp, ast.IfExp)):
                return self._name(one)
        here = len(self.found)
        labels = [self.value(part) for part in parts[:1]]
        there = len(self.found)
        labels += [self.value(part) for part in parts[1:]]
        if all(label == CONSTANT for label in labels):
            return CONSTANT
        self._fold(labels)
        if isinstance(node, (ast.BinOp, ast.Compare)) and CONSTANT in labels:
            name = f"{type(node).__name__} of a constant"  # whichever it is
        if isinstance(node, ast.BoolOp) and len(set(labels)) == 1:
            return labels[0]
        if isinstance(node, ast.IfExp) and labels[1] == labels[2]:
            del self.found[here:there]  # the test decides nothing
            return labels[1]
        for label in labels:
            if label != CONSTANT:
                self.pair(name, label)
        return name

    def _fold(self, labels: Sequence[str]) -> None:
        """Constants side by side are one expression, the same again two."""
        some = [label for label in labels if label != CONSTANT]
        self.values -= max(0, len(labels) - len(some) - 1)
        self.values += len(some) - len(set(some))

    def _name(self, name: str) -> str:
        if name not in self.flow.carrying:
            return CONSTANT
        if name in self.labels:
            return self.labels[name]
        if name in self.flow.made_of or self.flow.free is not None:
            return name
        return UNKNOWN + name if name not in BUILTINS else name

    def _attribute(self, base: str, attr: str) -> str:
        if base == CONSTANT:
            return CONSTANT
        if not self.flow.has(attr):
            attr = UNKNOWN
            if base.endswith(UNKNOWN):
                return base
        bare = base.removeprefix("()")
        links = len(bare) - len(bare.lstrip("."))
        if links >= LINKS:
            return base
        dots = LINKS if base.startswith(UNKNOWN) else links + 1
        label = "." * dots + attr
        self.pair(label, base)
        return label

    def _call(self, node: ast.Call) -> str:
        """A call: of a name, of an attribute, or of what another gave."""
        match node.func:
            case ast.Name(name) if name in BUILTINS and (
                name not in self.flow.carrying
            ):
                own = "convert" if name in CONVERSIONS else name
                self.values += 1
            case _:
                own = self.value(node.func)
        arguments = [*node.args, *(each.value for each in node.keywords)]
        labels = [self.value(each) for each in arguments]
        if all(label == CONSTANT for label in labels) and (
            own in (CONSTANT, "convert")
            or (own in BUILTINS and own not in self.flow.carrying)
        ):
            return CONSTANT
        if own == CONSTANT and isinstance(node.func, ast.Name):
            return next(each for each in labels if each != CONSTANT)
        invented = own.endswith(UNKNOWN)
        label = own if invented or own.startswith("()") else "()" + own
        self._fold(labels)
        labels = [each for each in labels if each != CONSTANT]
        for each in labels or [NOTHING] * (not invented):
            self.pair(label, each)
        return label

    def _comprehension(
        self,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
        elements: list[ast.expr],
    ) -> str:
        conditions: list[ast.expr] = []
        labels = []
        for each in node.generators:
            label = self.value(each.iter)
            labels.append(label)
            of_each = CONSTANT if label == CONSTANT else "item"
            self.labels.update(dict.fromkeys(names_in(each.target), of_each))
            conditions += each.ifs
        labels += [self.value(each) for each in elements]
        tests = [self.value(each) for each in conditions]
        if all(label == CONSTANT for label in (*labels, *tests)):
            return CONSTANT
        iterated = labels[: len(node.generators)]
        if set(iterated) == {CONSTANT} and not conditions:
            return labels[-1]
        name = "comprehension"
        for label in labels:
            if label != CONSTANT:
                self.pair(name, label)
        for label in tests:
            self.pair("if", label)
        return name

    def name_arguments(self, spec: ast.arguments) -> None:
        self.labels.update((name, "argument") for name in names_of(spec))


def _one_name(parts: Sequence[ast.expr]) -> str | None:
    """The name that all parts are, but for a `not`."""
    names = set()
    for part in parts:
        while isinstance(part, ast.UnaryOp):
            part = part.operand
        names.add(part.id if isinstance(part, ast.Name) else None)
    return names.pop() if len(names) == 1 else None


def _without_name(label: str) -> str:
    """A label; of an unknown name only that it is one."""
    head, sign, _ = label.partition(UNKNOWN)
    return head + sign
