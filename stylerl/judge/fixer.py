"""Completions after a team's own fixer: ruff's safe fixes and its format.

"Why not just run a formatter?"  Here it is run, on every completion: `ruff
check --fix`, its safe fixes alone, then `ruff format`.  The judge is asked
again, and what it still finds is what no formatter mends.  A completion that
ruff cannot parse stays as it was.

The prompt's rows stay as they are: what a fixer would do to them is not the
model's.
"""

import ast
import io
import tempfile
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache, partial
from pathlib import Path

from stylerl.judge import Judge, ruff_engine
from stylerl.judge.names import tree_of
from stylerl.judge.place import Completed
from stylerl.judge.positions import indent_of

RULES = "E,W,F"  # whose safe fixes are made: what flake8 knows by itself
CANNOT_PARSE = 2  # exit code of `ruff format`; the other files are formatted
STEP = "    "  # what a body is indented by, unless the guide allows its own
LAYOUT = ("E1", "W1")  # the rules on indentation
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def fix(items: Sequence[Completed], judge: Judge) -> list[str]:
    """Each completion after the fixer, at the judge's line length.

    Raises:
        StylerlError: ruff does not answer.
    """
    # 1. A file each; a call of ruff for those laid out alike.
    allows = cache(partial(_allows, judge))
    alike: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, (place, prompt, completion) in enumerate(items):
        indent = len(place.indent) if place else 0
        step = _step(prompt + completion)
        alike[indent, step if allows(step) else STEP].append(number)
    fixed = [completion for _, _, completion in items]
    for (indent, step), numbers in alike.items():
        with tempfile.TemporaryDirectory() as folder:
            paths = {n: Path(folder, f"{n}.py") for n in numbers}
            for n, path in paths.items():
                text = items[n][1] + items[n][2]
                path.write_text(text, encoding="utf-8", newline="")
            # 2. The fixer, as a team would run it.
            width = max(20, judge.width - indent)
            _run_ruff(paths.values(), width, step, judge)
            # 3. What has become of the rows after the prompt.
            for n, path in paths.items():
                text = path.read_text(encoding="utf-8")
                body = body_of(text, items[n][1])
                fixed[n] = fixed[n] if body is None else body
    return fixed


def body_of(text: str, prompt: str) -> str | None:
    """The body of a text whose prompt the fixer may have laid out anew.

    None where the prompt opens no function or class, or the text does not
    parse.
    """
    # 1. The definition that the prompt opens, the last of its name so far:
    # in the text others may follow.
    alone = prompt if tree_of(prompt) else prompt + "\n    pass\n"
    opened = next(reversed(_statements(alone)), None)
    if not isinstance(opened, Definition):
        return None
    before, after = (_named(opened.name, source) for source in (alone, text))
    if len(after) < len(before):
        return None
    # 2. What follows its head; a comment there is the prompt's, if it has one.
    now = after[len(before) - 1]
    documented = ast.get_docstring(opened, clean=False) is not None
    if documented and ast.get_docstring(now, clean=False) is None:
        return None  # the completion goes on in the docstring's statement
    rest = _after_head(text, now, documented)
    if _after_head(alone, opened, documented).partition("\n")[0].strip():
        rest = "".join(rest.partition("\n")[1:])
    return rest.removeprefix("\n") if prompt.endswith("\n") else rest


def changed_share(before: str, after: str) -> float:
    """The share of a completion's lines that the fixer has changed.

    A place where it only inserts counts as one line; the line end of the
    prompt, which both may begin with, as none.
    """
    old, new = (t.removeprefix("\n").splitlines() for t in (before, after))
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = sum(
        max(end - begin, 1)
        for tag, begin, end, _, _ in blocks
        if tag != "equal"
    )
    return min(1.0, changed / max(1, len(old)))


def _statements(text: str) -> list[ast.stmt]:
    """The statements of a module; none where it does not parse."""
    tree = tree_of(textwrap.dedent(text))
    return tree.body if tree else []


def _named(name: str, text: str) -> list[Definition]:
    """The functions and classes of a name in a module."""
    definitions = (n for n in _statements(text) if isinstance(n, Definition))
    return [node for node in definitions if node.name == name]


def _after_head(text: str, node: Definition, documented: bool) -> str:
    """What follows a definition's header, or its docstring."""
    if documented:
        docstring = node.body[0]
        row, column = docstring.end_lineno or 0, docstring.end_col_offset or 0
    else:
        row, column = _colon(text, node.lineno)
    lines = io.StringIO(text, newline="").readlines()  # as ast has them
    return lines[row - 1].encode()[column:].decode() + "".join(lines[row:])


def _colon(text: str, row: int) -> tuple[int, int]:
    """Where the header that begins in a row ends, after its colon."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.start[0] < row or token.type != tokenize.OP:
            continue
        depth += (token.string in "([{") - (token.string in ")]}")
        if token.string == ":" and depth == 0:
            line = token.line[: token.end[1]]
            return token.end[0], len(line.encode())
    raise AssertionError("a definition has a colon")


def _step(text: str) -> str:
    """What the body of a text's first definition is indented by."""
    for node in _statements(text):
        if isinstance(node, Definition):
            rows = io.StringIO(text, newline="").readlines()
            return indent_of(rows[node.body[0].lineno - 1]) or STEP
    return STEP


def _allows(judge: Judge, step: str) -> bool:
    """Whether a guide lets a body be indented so."""
    body = (None, "def f():", f"\n{step}return 1\n")
    (verdict,) = judge.in_place([body])
    return not any(v.code.startswith(LAYOUT) for v in verdict.violations)


def _run_ruff(
    files: Iterable[Path], width: int, step: str, judge: Judge
) -> None:
    """Fix files in place, whichever a configuration includes."""
    shared = [*map(str, files), "--no-force-exclude"]
    shared += ["--no-cache", "--quiet", "--line-length", str(width)]
    if judge.ruff is not None and judge.config.config:
        shared += ["--config", str(Path(judge.config.config).resolve())]
        rules = []
    else:
        layout = f"indent-width={min(len(step), len(STEP) * 2)}"
        if step.startswith("\t"):
            layout = 'format.indent-style="tab"'
        shared += ["--isolated", "--config", layout]
        rules = ["--select", RULES]
    ruff_engine.run(["check", "--fix-only", "--exit-zero", *shared, *rules])
    ruff_engine.run(["format", *shared], ends=(0, CANNOT_PARSE))
