"""The place of a function in its file, where its body is judged.

    place = Place(file, 12, function, head)
    placed = place.put("\\n    return os.sep\\n")
    verdict = placed.settle(judge.verdict(placed.source, placed.path))

A body is put into its file at the file's own indentation, flake8 judges the
file, and what it finds on the function's rows is the verdict: in the rows and
columns of the function alone, as `outcome.assess` takes it.  What it says of
other rows is not the body's, but for blank lines at the body's end, found at
the statement that follows, and a syntax error, wherever it is found.

Most of a file says nothing about a body that parses and stays inside its
function.  Such a body is judged in a skeleton of the file: what the names
that it mentions are bound to, the classes around it, and where it goes on.
"""

import ast
import contextlib
import itertools
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from stylerl.judge.outline import Outline, is_used, parse
from stylerl.judge.positions import LINE_END
from stylerl.judge.verdict import SYNTAX, Verdict, Violation

IDENTIFIER = re.compile(r"[^\W\d]\w*")
# Where a row that is not blank begins; a form feed takes it to column 0.
BEGIN = re.compile(r"(?:\r\n|\r|\n)\f*(?=[^\r\n]*\S)")
# How a text names another row.
LINE = re.compile(r"\bline (\d+)\b")
# Found at a function's first row for what stands before it, or the file.
OF_THE_REST = ("E30", "E117", "F811", "D100", "EXE", "INP", "N999")
TRIED = 8  # functions that may show a use of an import, before all are read
# Found at the statement after the body, for blank lines at its end.
OF_THE_JOINT = "E303"


@dataclass(frozen=True)
class File:
    """A file that functions were cut from."""

    lines: list[str]  # split at Unix line ends
    path: str  # which per-file-ignores look at
    outline: Outline

    def reads(self, name: str, but: int) -> bool:
        """Whether one of the first functions that mention an import uses it.

        Args:
            name: of the import.
            but: the row of a function that does not count.
        """
        word, tried = re.compile(rf"(?<![\w.]){name}\b"), 0
        for row, nest in self.outline.functions.items():
            if row == but or name in nest.hiding or tried == TRIED:
                continue
            rows = self._function(row)
            if any(map(word.search, rows)):
                tried += 1
                branch = ["if 0:"] * bool(_indent(rows[0]))
                text = "\n".join([f"import {name}", *branch, *rows, ""])
                with contextlib.suppress(SyntaxError):
                    if is_used(name, text):
                        return True
        return False

    def _function(self, row: int) -> list[str]:
        """The rows of a function, if none of its lines begins before it."""
        depth = len(_indent(self.lines[row - 1]))
        rows = self.lines[row - 1 : row]
        for line in itertools.islice(self.lines, row, None):
            code = line.lstrip(" \t\f")
            if code and len(line) - len(code) <= depth and code[0] != "#":
                break
            rows.append(line)
        return rows


class Placed(NamedTuple):
    """A source to judge, and how its rows become the function's."""

    source: bytes
    path: str
    above: int  # rows before the function's first
    rows: int  # of the function
    indent: int  # characters before each of its rows
    joint: int  # rows after it that its blank lines may offend; 0 for none
    whole: str = ""  # why this is the whole file and no skeleton of it

    def settle(self, found: Verdict) -> Verdict:
        """What of the file's verdict is the function's."""
        own = filter(None, map(self._own, found.violations))
        return Verdict(tuple(sorted(own)), found.parsed, found.reason)

    def _own(self, found: Violation) -> Violation | None:
        row, col, code, text = found
        row, col = row - self.above, max(1, col - self.indent)
        if not 1 <= row <= self.rows:
            at_joint = self.rows < row <= self.rows + self.joint
            if not (
                code.startswith(SYNTAX) or (at_joint and code == OF_THE_JOINT)
            ):
                return None
            row, col = self.rows + 1, 1
        elif row == 1 and code.startswith(OF_THE_REST):
            return None
        return Violation(row, col, code, LINE.sub(self._line, text))

    def _line(self, named: re.Match[str]) -> str:
        """A row of the function, by its number there, or another."""
        row = int(named[1]) - self.above
        return f"line {row}" if 1 <= row <= self.rows else "another line"


class Place:
    """A function's header in its file, without the body."""

    def __init__(self, file: File, row: int, function: str, head: str) -> None:
        """Find a function in its file.

        Args:
            file: its rows, name and outline.
            row: the function's first row, from 1; its decorators are above.
            function: its text, ending in a line end.
            head: the part of it that is its header and docstring.
        """
        self.file = file
        # What the head has of the body, and the rows above each part.
        self._lead = "\n" if head.endswith("\n") else ""
        self._start = row - 1
        self._body = row + head.removesuffix("\n").count("\n")
        self._end = self._start + function.count("\n")
        first = file.lines[self._start]
        self.indent = _indent(first)
        self._used: dict[str, bool] = {}

    @property
    def above(self) -> str:
        """The text of its file above the function, its decorators last."""
        return "".join(f"{line}\n" for line in self._before)

    @property
    def known(self) -> frozenset[str] | None:
        """The names of its module; None where a star import hides some."""
        return self.file.outline.known

    def put(self, completion: str, *, whole: bool = False) -> Placed:
        """The source in which a completion of the header is judged.

        Its last line end is the file's.

        Args:
            completion: what follows the header, indented as if the header
                were not.
            whole: judge in the whole file; else in a skeleton, where that
                gives the same verdict.
        """
        body = self._lead + completion.removesuffix("\n")
        ends_blank = not body.rpartition("\n")[2].strip(" \t\f")
        rows = "asked for" if whole else self._skeleton(body)
        before, after = self._before, self._after
        if not isinstance(rows, str):
            (before, after), rows = rows, ""
        source = "\n".join([*before, *self._head])
        source += _indented(body, self.indent) + "\n"
        source += "\n".join(after)
        return Placed(
            source.encode("utf-8", "surrogatepass"),
            self.file.path,
            len(before),
            len(self._head) + len(LINE_END.findall(body)),
            len(self.indent),
            len(self._next) if ends_blank else 0,
            rows,
        )

    @property
    def _before(self) -> list[str]:
        return self.file.lines[: self._start]

    @property
    def _head(self) -> list[str]:
        return self.file.lines[self._start : self._body]

    @property
    def _after(self) -> list[str]:
        return self.file.lines[self._end :]

    @cached_property
    def _next(self) -> list[str]:
        """The rows below, to the first statement, of which stays a pass."""
        after = self._after
        for number, row in enumerate(after):
            code = row.lstrip(" \t\f")
            if code and not code.startswith("#"):
                stub = row[: len(row) - len(code)] + "pass"
                return [*after[:number], stub, ""]
        return after

    def _skeleton(self, body: str) -> tuple[list[str], list[str]] | str:
        """Rows that stand for all above and below, or why the file is needed.

        Where a body does not parse, flake8 stops at the parser's error, for
        which nothing above counts but the classes around.
        """
        nest = self.file.outline.functions.get(self._start + 1)
        if nest is None:
            return "in a statement or a class of a rare kind"
        if "\r" in body:
            return "a carriage return"
        prompt = [row.removeprefix(self.indent) for row in self._head]
        text = "\n".join(prompt) + body + "\n"
        tree = _parse(text)
        if tree is None:
            rows = [*nest.headers, *self._head]
            below = "\n".join(self._after)
            placed = f"{_indented(body, self.indent)}\n{below}"
            if _parse("\n".join(rows) + placed) is None:
                return nest.headers, self._after
            return "the rows below complete it"
        if len(tree.body) > 1:
            return "a statement leaves the function"
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
        mentioned = set(IDENTIFIER.findall(text))
        above = self.file.outline.skeleton(
            nest, mentioned, _bound(tree), self._is_used
        )
        if isinstance(above, str):
            return above
        above = [*self._indented_by, *above]
        if nest.again:
            later = f"{self.indent}def {nest.again}(): pass"
            return above, [*self._next, *nest.headers, later, ""]
        return above, self._next

    @cached_property
    def _indented_by(self) -> list[str]:
        """A row that says which character indents the file, if one does."""
        above = (row[0] for row in self._before if row[:1] in (" ", "\t"))
        return [f"{character}#" for character in itertools.islice(above, 1)]

    def _is_used(self, name: str) -> bool:
        """Whether the rest of the file uses an import."""
        if name not in self._used:
            own = self._start + 1
            self._used[name] = self.file.reads(name, own) or is_used(
                name, "\n".join(self.file.lines), own
            )
        return self._used[name]


def _parse(text: str) -> ast.Module | None:
    """The tree of a text; None where it does not parse."""
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(tree: ast.Module) -> set[str]:
    """The names that some code binds, deletes or declares."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case (
                ast.FunctionDef(name=str(name))
                | ast.AsyncFunctionDef(name=str(name))
                | ast.ClassDef(name=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
                | ast.arg(arg=name)
            ):
                names.add(name)
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                names.update(several)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
    return names


def _indent(row: str) -> str:
    """The blanks and tabs that a row begins with."""
    return row[: len(row) - len(row.lstrip(" \t"))]


def _indented(body: str, indent: str) -> str:
    """A body with each row but the first, and blank ones, moved right."""
    return BEGIN.sub(lambda begin: begin[0] + indent, body)
