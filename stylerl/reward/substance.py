"""How much a completion says: pairs of operation and operand, each once.

A clean but empty body pleases every linter, and so does a long one of
constants.  What counts is what a body does with its inputs (parameters, names
of the module around, builtins that read the world) and what comes of it in
the end (flow.py): `.b` of a, f of `.b`, f's value returned (facts.py).
Counted is the body that the prompt opened (the last `def` or `class` that
begins in it) from the end of the prompt on.  Code is parsed, never run.
"""

import ast
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from stylerl.judge.outline import parse
from stylerl.reward.facts import Facts
from stylerl.reward.flow import (
    DEFINITIONS,
    At,
    Definition,
    Flow,
    bound_in,
    names_of,
)
from stylerl.reward.values import CONSTANT

USES = 3  # pairs that one operation, or one operand, is counted in
DENSITY = 0.4  # pairs an expression; what says less is worth less
WHOLE = 0.3  # share of the size expected from which style counts in full
Known = Callable[[str], Collection[str] | None]  # around a prompt
Position = tuple[int, int]  # row from 1, column from 0 in bytes


class Substance(NamedTuple):
    """What a completion holds, whatever its style."""

    parsed: bool
    statements: int  # that say something new; 0 if not parsed
    size: float  # pairs, fewer where expressions say the same again
    trivial: bool  # parsed, and no input is read to any effect


def measure(
    prompt: str, completion: str, known: Collection[str] | None = None
) -> Substance:
    """Count what the completion says in the prompt's body.

    A prompt without `def` or `class` opens no body; then every statement of
    the completion counts.  `known` are the names of the module around, and
    after a dot the attributes that its file mentions: any other name that
    nothing binds is worth nothing, and all other attributes but those of
    builtin types are worth what one is.  Where they are not known (None), a
    free name may be any of them, and all such names are worth what one is.
    """
    try:
        facts = _facts(prompt, completion, known)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Substance(parsed=False, statements=0, size=0, trivial=False)
    first: dict[tuple[str, str], int] = {}
    for statement, operation, operand in facts.found:
        if (operand, operation) not in first:
            first.setdefault((operation, operand), statement)
    operations: Counter[str] = Counter()
    operands: Counter[str] = Counter()
    pairs = 0
    for operation, operand in first:
        operations[operation] += 1
        operands[operand] += 1
        pairs += operations[operation] <= USES and operands[operand] <= USES
    thin = min(1.0, pairs / (DENSITY * max(1, facts.values)))
    trivial = first.keys() <= {("do", CONSTANT), ("=", CONSTANT)}
    statements = len(set(first.values()))
    return Substance(True, statements, pairs * thin**2, trivial)


def share_of_expected(size: float, expected: float) -> float:
    """Substance as a reward: the size over the one expected, at most 1.

    Nothing is gained by writing more than that.
    """
    return min(1.0, size / max(expected, 1.0))


def wholeness(size: float, expected: float) -> float:
    """What style is multiplied by: 1 from a share of WHOLE on.

    Below, the square of how far the share is on the way there, so that one
    clean line is not worth a clean page.
    """
    return min(1.0, share_of_expected(size, expected) / WHOLE) ** 2


def anything(prompt: str) -> None:
    """The names of the module around any prompt, where none is known."""


def expected_sizes(
    samples: Mapping[str, list[str]],
    known: Known = anything,
    *,
    target: float = 1.0,
) -> dict[str, float]:
    """The size of what the reference writes for each prompt, times target.

    `samples` are its completions of each prompt, `known` gives the names of
    the module around one, as `measure` takes them.  A completion that does
    not parse counts as its length makes likely: long ones fail more often,
    and leaving them out would ask for less than the reference writes.  One
    sample says little about a prompt, so the mean of a prompt's n samples
    is drawn to the mean of all by the weight of one: their weighted
    geometric mean, since sizes differ by factors.
    """
    found = {
        prompt: [
            (measure(prompt, text, known(prompt)), len(text)) for text in texts
        ]
        for prompt, texts in samples.items()
    }
    every = [pair for pairs in found.values() for pair in pairs]
    parsed = [(each.size, length) for each, length in every if each.parsed]
    written = max(1, sum(length for _, length in parsed))
    density = sum(size for size, _ in parsed) / written  # pairs a character
    sizes = {
        prompt: [
            each.size if each.parsed else density * length
            for each, length in pairs
        ]
        for prompt, pairs in found.items()
    }
    overall = sum(map(sum, sizes.values())) / max(1, len(every))
    return {
        prompt: target
        * _drawn(math.fsum(each) / len(each), len(each), overall)
        for prompt, each in sizes.items()
    }


def _drawn(mean: float, n: int, overall: float) -> float:
    """The mean of n, at least 1, drawn to that of all.

    (mean^n overall)^(1 / (n + 1)), whose product no float holds for large n.
    """
    return float((max(1.0, mean) * overall ** (1 / n)) ** (n / (n + 1)))


def _facts(
    prompt: str, completion: str, known: Collection[str] | None
) -> Facts:
    """What the completion's statements in the opened body say.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as Python
    does, for what it cannot parse.
    """
    tree = parse(prompt + completion)
    end = _end(prompt)
    opened = _opened(tree, end)
    body = [node for node in opened.body if _position(node) >= end]
    flow = Flow(known)
    resolved: set[str] = set()
    if isinstance(opened, (ast.FunctionDef, ast.AsyncFunctionDef)):
        resolved = {opened.name, *names_of(opened.args)}
        flow.inputs |= resolved
    else:
        flow.export(bound_in(body))
    flow.block(body, At())
    flow.close()
    facts = Facts(flow, sorted(resolved))
    facts.block(body)
    return facts


def _end(prompt: str) -> Position:
    """Where the completion begins."""
    last = prompt[prompt.rfind("\n") + 1 :]
    return prompt.count("\n") + 1, len(last.encode("utf-8", "replace"))


def _opened(tree: ast.Module, end: Position) -> ast.Module | Definition:
    """The last definition that begins before `end`; else the module."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, DEFINITIONS) and _position(node) < end
    ]
    return max(found, key=_position) if found else tree


def _position(node: ast.stmt) -> Position:
    return node.lineno, node.col_offset
