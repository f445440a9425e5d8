"""What a body says, statement by statement.

What nobody reads, what is never reached and a choice between branches that
do the same say nothing; values.py has the expressions.
"""

import ast
from collections.abc import Sequence
from itertools import chain

from stylerl.reward.flow import (
    DEEP,
    DEFINITIONS,
    Flow,
    branches,
    ends,
    leaves,
    literal_truth,
    names_in,
    reachable,
    targets_of,
)
from stylerl.reward.values import CONSTANT, UNKNOWN, Fact, Values


class Facts(Values):
    """The pairs of one body, in its order."""

    def __init__(self, flow: Flow, resolved: Sequence[str]) -> None:
        """Read no statement yet; `flow` has read them all."""
        super().__init__(flow, resolved)
        self._outlines: dict[object, int] = {(): 0}

    def block(self, body: Sequence[ast.stmt]) -> int:
        """Add what a block says; returns the number of its outline.

        Two blocks have one outline if they do the same to different
        operands: such branches decide nothing, and the one that says most
        counts alone.
        """
        outline: list[object] = []
        self.depth += 1
        rest = list(reachable(body)) if self.depth <= DEEP else []
        for at, node in enumerate(rest):
            self.statement += 1
            following: list[ast.stmt] = []
            if isinstance(node, ast.If):
                then, orelse = branches(node)
                following = rest[at + 1 :]
                if ends(then):
                    orelse = [*orelse, *following]
                elif ends(orelse):
                    then = [*then, *following]
                else:
                    following = []
                shape = self._choice(node, then, orelse)
            else:
                shape = self._one(node)
            if shape is not None:
                outline.append(shape)
            if following:
                break
        self.depth -= 1
        return self._number(outline)

    def _apart(self, body: Sequence[ast.stmt]) -> tuple[int, list[Fact]]:
        """The number of a block's outline, and its pairs, kept apart."""
        before, self.found = self.found, []
        outline = self.block(body)
        pairs, self.found = self.found, before
        return outline, pairs

    def _number(self, outline: list[object]) -> int:
        """Equal outlines have equal numbers; that of nothing is 0."""
        if len(outline) == 1 and isinstance(outline[0], int):
            return outline[0]
        return self._outlines.setdefault(tuple(outline), len(self._outlines))

    def _choice(
        self,
        node: ast.If,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
    ) -> object:
        """A decision between two blocks."""
        if literal_truth(node.test) is not None:
            return self.block(body or orelse)
        if not self.carries(node.test):
            return None
        here, before = self.statement, self.found
        self.found = []
        self.pair("if", self.value(node.test))
        test, self.found = self.found, before
        first, yes = self._apart(body)
        second, no = self._apart(orelse)
        if first == second:
            self.found += yes if len(yes) >= len(no) else no
            if _is_truth(body, orelse):
                self.found += test
            return first or None
        self.found += [fact._replace(statement=here) for fact in test]
        self.found += yes + no
        return ("if", first, second)

    def _one(self, node: ast.stmt) -> object:
        """Any other statement: what it does, as its part of the outline."""
        match node:
            case ast.Return(None) | ast.Return(ast.Constant(None)):
                return ("return", CONSTANT)
            case ast.Return(ast.expr() as value):
                return self._effect("return", value)
            case ast.Raise(exc=ast.expr() as value):
                if _is_abstract(value):
                    return ("raise", CONSTANT)
                return self._effect("raise", value)
            case ast.Expr(value):
                return self._expression(value)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                return self._assign(node)
            case ast.Assert(test):
                return self._effect("assert", test)
            case ast.Delete(targets):
                stored = [t for t in targets if not isinstance(t, ast.Name)]
                for target in stored:
                    self.pair("del", self.value(target))
                return ("del",) if stored else None
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = (alias.asname or alias.name).partition(".")[0]
                    self.labels[name] = UNKNOWN + name
                return None
            case ast.While() | ast.For() | ast.AsyncFor():
                return self._loop(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.Try() | ast.TryStar():
                return self._try(node)
            case ast.Match():
                return self._match(node)
            case _ if isinstance(node, DEFINITIONS):
                return self._definition(node)
            case _:
                return None

    def _effect(self, what: str, value: ast.expr) -> object:
        label = self.value(value)
        if label == CONSTANT:
            if what != "assert":
                self.pair("do", label)
        elif label != "argument":
            self.pair(what, label)
        return (what, label)

    def _expression(self, value: ast.expr) -> object:
        """A bare expression; only calls, awaits and yields do something."""
        match value:
            case ast.Yield(inner) | ast.YieldFrom(inner):
                if inner is None:
                    return ("yield", CONSTANT)
                return self._effect("yield", inner)
            case ast.Call() | ast.Await():
                label = self.value(value)
                if label == CONSTANT:
                    self.pair("do", label)
                return ("do", label)
            case _:
                return None

    def _assign(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign
    ) -> object:
        """An assignment, unless nobody reads what it binds."""
        if node.value is None:
            return None
        targets = targets_of(node)
        every = [leaf for target in targets for leaf in leaves(target)]
        if not any(self._is_live(leaf) for leaf in every):
            return None
        # --- the value ---
        label = self.value(node.value)
        if isinstance(node, ast.AugAssign):
            own = type(node.op).__name__
            both = [self.value(node.target), label]
            if both != [CONSTANT, CONSTANT]:
                for each in both:
                    self.pair(own, each)
                label = own
        # --- where it goes ---
        shape: list[str] = []
        for target in targets:
            parts = _pairs(target, node.value)
            for leaf, value in parts:
                part = label
                if value is not None and len(parts) > 1:
                    part = self.label_of(value)
                elif len(parts) > 1:
                    part = "part"
                    self.pair(part, label)
                shape.append(self._store(leaf, part))
        return tuple(shape)

    def _store(self, leaf: ast.expr, label: str) -> str:
        if isinstance(leaf, ast.Name):
            self.labels[leaf.id] = label
            if leaf.id in self.flow.exports:
                self.pair("do" if label == CONSTANT else "store", label)
            elif label == CONSTANT and leaf.id in self.flow.carrying:
                self.pair("=", label)
            return "= " + label
        here = len(self.found)
        own = self.value(leaf)
        if label == CONSTANT and isinstance(leaf, ast.Attribute):
            del self.found[here:]
        self.pair("store " + own if label != CONSTANT else "store", label)
        return "store " + own

    def _is_live(self, leaf: ast.expr) -> bool:
        return not isinstance(leaf, ast.Name) or leaf.id in self.flow.live

    def _under(self, what: str, tests: Sequence[ast.expr]) -> list[Fact]:
        """The pairs of a compound statement's head, kept apart."""
        before, self.found = self.found, []
        for test in tests:
            label = self.value(test)
            if label != CONSTANT:
                self.pair(what, label)
        head, self.found = self.found, before
        return head

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor) -> object:
        """A loop; nothing if its body does nothing."""
        body, orelse = branches(node)
        test = node.test if isinstance(node, ast.While) else node.iter
        if isinstance(node, ast.While) and not (
            literal_truth(test) or self.carries(test)
        ):
            return None
        head = self._under("loop", [test])
        if not isinstance(node, ast.While):
            label = "item" if self.carries(test) else CONSTANT
            self.labels.update(dict.fromkeys(names_in(node.target), label))
        return self._whole(head, "loop", [body, orelse])

    def _with(self, node: ast.With | ast.AsyncWith) -> object:
        tests = [each.context_expr for each in node.items]
        head = self._under("with", tests)
        for each in node.items:
            if each.optional_vars:
                label = self.label_of(each.context_expr)
                names = names_in(each.optional_vars)
                self.labels.update(dict.fromkeys(names, label))
        return self._whole(head, "with", [node.body])

    def _whole(
        self, head: list[Fact], what: str, blocks: Sequence[list[ast.stmt]]
    ) -> object:
        """A head and its blocks; nothing if these do nothing."""
        at = len(self.found)
        shapes = [self.block(block) for block in blocks]
        if not any(shapes):
            return None
        self.found[at:at] = head
        return (what, *shapes)

    def _try(self, node: ast.Try | ast.TryStar) -> object:
        first = self.block([*node.body, *node.orelse])
        shapes = [first]
        for handler in node.handlers:
            head: list[Fact] = []
            if handler.type is not None and first:
                head = self._under("except", [handler.type])
            if handler.name:
                self.labels[handler.name] = "except"
            at = len(self.found)
            shape = self.block(handler.body)
            if shape:
                self.found[at:at] = head
            shapes.append(shape)
        shapes.append(self.block(node.finalbody))
        return ("try", *shapes) if any(shapes) else None

    def _match(self, node: ast.Match) -> object:
        if not self.carries(node.subject):
            return None
        head = self._under("match", [node.subject])
        cases = [self._apart(case.body) for case in node.cases]
        shapes, parts = zip(*cases, strict=True)
        if len(set(shapes)) == 1:
            self.found += sorted(parts, key=len)[-1]
            return shapes[0] or None
        self.found += chain(head, *parts)
        return ("match", *shapes)

    def _definition(self, node: ast.stmt) -> object:
        assert isinstance(node, DEFINITIONS)
        if node.name not in self.flow.live:
            return None
        self.labels[node.name] = "def"
        if not isinstance(node, ast.ClassDef):
            self.name_arguments(node.args)
        shape = self.block(node.body)
        self.labels[node.name] = "def"
        return ("def", shape)


def _pairs(
    target: ast.expr, value: ast.expr
) -> list[tuple[ast.expr, ast.expr | None]]:
    """The targets of an assignment, each with its own value if it has one."""
    if (
        isinstance(target, ast.Tuple)
        and isinstance(value, ast.Tuple)
        and len(target.elts) == len(value.elts)
    ):
        return list(zip(target.elts, value.elts, strict=True))
    return [(leaf, None) for leaf in leaves(target)]


def _is_abstract(value: ast.expr) -> bool:
    raised = value.func if isinstance(value, ast.Call) else value
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _is_truth(yes: Sequence[ast.stmt], no: Sequence[ast.stmt]) -> bool:
    """Whether a choice is the truth of its test: True or else False."""
    match yes, no:
        case (
            [ast.Return(ast.Constant(bool(one)))],
            [ast.Return(ast.Constant(bool(other)))],
        ):
            return one != other
        case _:
            return False
