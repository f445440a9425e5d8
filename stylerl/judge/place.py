"""The place of a function in its file, where its body is judged.

    place = Place(file, 12, function, head)
    placed = place.put("\\n    return os.sep\\n")
    (verdict,) = map(placed.settle, judge.judge_files([placed.source]))

A body is put into its file at the file's own indentation, flake8 judges the
file, and what it finds on the function's rows is the verdict: in the rows and
columns of the function alone, as `outcome.assess` takes it.  What it says of
other rows is not the body's, but for blank lines at the body's end, found at
the statement that follows, and a syntax error, wherever it is found.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from stylerl.judge.names import module_names
from stylerl.judge.positions import LINE_END, indent_of
from stylerl.judge.verdict import SYNTAX, Extent, Source, Verdict, Violation

# Where a row that is not blank begins; a form feed takes it to column 0.
BEGIN = re.compile(r"(?:\r\n|\r|\n)\f*(?=[^\r\n]*\S)")
# How a text names another row.
LINE = re.compile(r"\bline (\d+)\b")
# Found at a function's first row for what stands before it, or the file.
OF_THE_REST = ("E30", "E117", "F811", "D100", "EXE", "INP", "N999")
# Found at the statement after the body, for blank lines at its end.
OF_THE_JOINT = "E303"


@dataclass(frozen=True)
class File:
    """A file that functions were cut from."""

    lines: list[str]  # split at Unix line ends
    path: str  # which per-file-ignores look at

    @cached_property
    def known(self) -> frozenset[str] | None:
        """The names of the module; None where a star import hides some."""
        return module_names("\n".join(self.lines))


class Placed(NamedTuple):
    """A source to judge, and how its rows map to the function's."""

    source: Source  # what the judge is asked about
    extent: Extent  # the function's rows in it
    indent: int  # characters before each of its rows

    def settle(self, verdict: Verdict) -> Verdict:
        """The part of the file's verdict that belongs to the function."""
        violations = filter(None, map(self._moved, verdict.violations))
        return Verdict(
            tuple(sorted(violations)), verdict.parsed, verdict.reason
        )

    def _moved(self, violation: Violation) -> Violation | None:
        row, col, code, text = violation
        above, rows, joint = self.extent
        row, col = row - above, max(1, col - self.indent)
        if not 1 <= row <= rows:
            at_joint = rows < row <= rows + joint
            if not (
                code.startswith(SYNTAX) or (at_joint and code == OF_THE_JOINT)
            ):
                return None
            row, col = rows + 1, 1
        elif row == 1 and code.startswith(OF_THE_REST):
            return None
        return Violation(row, col, code, LINE.sub(self._line, text))

    def _line(self, named: re.Match[str]) -> str:
        """A row of the function, by its number there, or another."""
        row = int(named[1]) - self.extent.above
        inside = 1 <= row <= self.extent.rows
        return f"line {row}" if inside else "another line"


class Place:
    """A function's header in its file, without the body."""

    def __init__(self, file: File, row: int, function: str, head: str) -> None:
        """Find a function in its file.

        Args:
            file: its rows and name.
            row: the function's first row, from 1; its decorators are above.
            function: its text, ending in a line end.
            head: the part of it that is its header and docstring.
        """
        self.file = file
        self.row = row  # of its `def`
        # What the head has of the body, and the rows above each part.
        self._lead = "\n" if head.endswith("\n") else ""
        self._start = row - 1
        self._body = row + head.removesuffix("\n").count("\n")
        self._end = self._start + function.count("\n")
        first = file.lines[self._start]
        self.indent = indent_of(first)

    @property
    def above(self) -> str:
        """The text of its file above the function, its decorators last."""
        return "".join(f"{line}\n" for line in self.file.lines[: self._start])

    def put(self, completion: str) -> Placed:
        """The source in which a completion of the header is judged.

        Its last line end is the file's.

        Args:
            completion: what follows the header, indented as if the header
                were not.
        """
        body = self._lead + completion.removesuffix("\n")
        ends_blank = not body.rpartition("\n")[2].strip(" \t\f")
        lines = self.file.lines
        text = "\n".join(lines[: self._body])
        text += _indented(body, self.indent) + "\n"
        text += "\n".join(lines[self._end :])
        extent = Extent(
            self._start,
            self._body - self._start + len(LINE_END.findall(body + "\n")) - 1,
            self._joint if ends_blank else 0,
        )
        content = text.encode("utf-8", "surrogatepass")
        source = Source(content, self.file.path, extent)
        return Placed(source, extent, len(self.indent))

    @cached_property
    def _joint(self) -> int:
        """The number of rows below, up to the first row of a statement."""
        after = self.file.lines[self._end :]
        for number, row in enumerate(after):
            code = row.lstrip(" \t\f")
            if code and not code.startswith("#"):
                return number + 1
        return len(after)


Completed = tuple[Place | None, str, str]  # where, prompt and completion


def _indented(body: str, indent: str) -> str:
    """A body with each row but the first, and blank ones, moved right."""
    return BEGIN.sub(lambda begin: begin[0] + indent, body)
