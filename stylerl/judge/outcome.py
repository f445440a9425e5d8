"""The outcome of one completion: the violations that it is charged with.

A completion is judged together with its prompt, in its file where that is
known, because most rules need both.  Each violation is then attributed to the
prompt, the completion or the cut at the token limit, and only the
completion's are charged; text that does not parse is not text with one
violation.
"""

import ast
import io
import tokenize
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from tokenize import COMMENT, DEDENT, ENDMARKER, INDENT, NL
from typing import NamedTuple

from stylerl.judge.names import tree_of
from stylerl.judge.positions import offset
from stylerl.judge.verdict import SYNTAX, Verdict, Violation, style_score


class Outcome(StrEnum):
    """The four ways a completion can end; only the first is a success."""

    COMPLIANT = "compliant"
    VIOLATIONS = "violations"
    UNPARSABLE = "unparsable"
    UNFINISHED = "unfinished"


class Assessment(NamedTuple):
    """A completion's outcome, with the violations it is charged with."""

    outcome: Outcome
    parsed: bool
    score: float  # 0 to 1
    violations: tuple[Violation, ...]  # rows count from the prompt's first


class Attribution(NamedTuple):
    """The violations by what caused them, each in one field."""

    prompt: tuple[Violation, ...]  # were there before the model wrote
    completion: tuple[Violation, ...]  # the model wrote
    cut: tuple[Violation, ...]  # the text cut off might have fixed them


# Reported at a header for what follows its colon: a body on the same line, a
# body too complex.
OF_THE_BODY = frozenset(("E701", "E704", "C901"))
# Reported anywhere before the body: it is too long or leaves an argument
# unused (ruff's ARG, flake8-unused-arguments' U10).
OF_ITS_WHOLE = ("ARG", "U10", "PLR0911", "PLR0912", "PLR0914", "PLR0915")
# Found where the file ends: a missing or a blank last line, and names that
# nothing has used or defined by then.
OF_THE_END = (
    *("W292", "W391", "F401", "F821", "F822", "F841", "F842"),
    *("ARG", "U10", "B007", "RET503"),
)
_NO_CODE = frozenset((NL, COMMENT, INDENT, DEDENT, ENDMARKER))


def attribute(
    prompt: str, finished: bool, violations: Sequence[Violation]
) -> Attribution:
    """Attribute what the judge found to prompt, completion or cut.

    By position, on the whole: what flake8 reports beyond the prompt's last
    character is the completion's.  So is, wherever it is reported, a body
    on the line of its header (E701, E704) or too complex (C901), what is
    said of its last function whole (OF_ITS_WHOLE), and a syntax error, since
    the prompt was cut from text that parses.

    Of a completion that is not `finished`, and judged without the line that
    was cut, syntax errors and what is found at the end of a file are the
    cut's: the rest of the text might have fixed them.

    Args:
        prompt: the text that the judged one begins with.
        finished: the completion ended by itself, before the token limit.
        violations: of prompt and completion together.
    """
    header = _header_rows(prompt)
    function = _opened_row(prompt)

    def owner(violation: Violation) -> str:
        if violation.code.startswith(SYNTAX):
            return "completion" if finished else "cut"
        late = not finished and violation.code.startswith(OF_THE_END)
        if violation.code in OF_THE_BODY and violation.row in header:
            return "completion"
        whole = violation.row >= function and (
            violation.code.startswith(OF_ITS_WHOLE)
        )
        if offset(prompt, violation) < len(prompt) and not whole:
            return "prompt"
        return "cut" if late else "completion"

    parts: dict[str, list[Violation]] = {n: [] for n in Attribution._fields}
    for violation in violations:
        parts[owner(violation)].append(violation)
    return Attribution(*map(tuple, parts.values()))


def _opened_row(prompt: str) -> int:
    """The row of the last function that a prompt begins, or 1."""
    trees = [tree_of(prompt + body) for body in ("", "\n    pass\n")]
    nodes = [node for tree in trees if tree for node in ast.walk(tree)]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    rows = [node.lineno for node in nodes if isinstance(node, functions)]
    return max(rows, default=1)


def _header_rows(prompt: str) -> range:
    """The rows of the prompt's last statement, if it ends in a colon."""
    first, last, begins = 1, "", True
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(prompt).readline):
            if token.type == tokenize.NEWLINE:
                begins = True
            elif token.type not in _NO_CODE:
                first = token.start[0] if begins else first
                last, begins = token.string, False
    return range(first, prompt.count("\n") + 2 if last == ":" else first)


def assess(prompt: str, finished: bool, verdict: Verdict) -> Assessment:
    """Charge a verdict on prompt and completion to the completion.

    An unfinished one is judged without the line that was cut.
    """
    violations = attribute(prompt, finished, verdict.violations).completion
    if not finished:
        outcome = Outcome.UNFINISHED
    elif not verdict.parsed:
        outcome = Outcome.UNPARSABLE
    elif violations:
        outcome = Outcome.VIOLATIONS
    else:
        outcome = Outcome.COMPLIANT
    score = style_score(len(violations)) if verdict.parsed else 0.0
    return Assessment(outcome, verdict.parsed, score, violations)
