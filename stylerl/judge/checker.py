"""flake8's checker of one file, on bytes, with less waste.

It finds what flake8's own finds, and passes over three things that find
nothing: `# noqa`, which does not count; tokens that no line ends with; and
lines on which no rule about whole lines could find fault.
"""

import io
import tokenize
from argparse import Namespace
from tokenize import NAME, NEWLINE, NL, NUMBER, OP

from flake8.checker import FileChecker
from flake8.plugins.finder import Checkers
from flake8.plugins.pycodestyle import pycodestyle_physical
from flake8.processor import FileProcessor

# Without a backslash in their line, these end no line and span no two.
INNER = frozenset((NAME, OP, NUMBER))
DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
BLANK = frozenset(" \v\r\f\n")  # a line's last character is none of these


class Checker(FileChecker):
    """Checks one source."""

    processor: FileProcessor

    def __init__(
        self, source: bytes, path: str, plugins: Checkers, options: Namespace
    ) -> None:
        self._source = source
        self.stopped: str | None = None  # the error flake8 stopped at
        # No plugin but pycodestyle looks at single lines.
        self._only_style = [p.obj for p in plugins.physical_line] == [
            pycodestyle_physical
        ]
        super().__init__(filename=path, plugins=plugins, options=options)

    def _make_processor(self) -> FileProcessor:
        return FileProcessor(
            self.filename, self.options, read_lines(self._source)
        )

    def report(
        self, error_code: str | None, line_number: int, column: int, text: str
    ) -> str:
        """Keep one finding; E902 and E999 are where flake8 gives up."""
        if error_code is None:
            error_code, text = text.split(" ", 1)
        else:
            self.stopped = f"{error_code} {text}"
        self.results.append((error_code, line_number, column, text, None))
        return error_code

    def process_tokens(self) -> None:
        """Cut the tokens into lines, and check these."""
        depth = 0  # of brackets
        previous = ""
        for token in self.processor.generate_tokens():
            kind, text, _, _, line = token
            if kind not in INNER or "\\" in line:
                self.check_physical_eol(token, previous)
            if kind == OP:
                depth += DEPTH.get(text, 0)
            elif depth == 0 and kind in (NEWLINE, NL):
                self.handle_newline(kind)
            previous = line
        if self.processor.tokens:
            self.run_physical_checks(self.processor.lines[-1])
            self.run_logical_checks()

    def run_physical_checks(self, physical_line: str) -> None:
        """Run the checks of whole lines, unless the line is plainly fine.

        It is where it ends in a character and a newline, or is blank, is not
        the file's last, short enough, and neither it nor its file is
        indented by tabs.
        """
        file = self.processor
        if not (
            self._only_style
            and len(physical_line) <= file.max_line_length
            and physical_line[-1:] == "\n"
            and (physical_line == "\n" or physical_line[-2] not in BLANK)
            and "\t" not in physical_line
            and file.indent_char != "\t"
            and file.line_number != file.total_lines
        ):
            super().run_physical_checks(physical_line)


def read_lines(source: bytes) -> list[str]:
    """Decode and split a file as flake8 does.

    By the encoding that a BOM or a declaration names, else UTF-8; by Latin-1
    where that fails.  Line ends of every kind become newlines.
    """
    buffer = io.BytesIO(source)
    try:
        encoding, _ = tokenize.detect_encoding(buffer.readline)
        buffer.seek(0)
        return io.TextIOWrapper(buffer, encoding).readlines()
    except (SyntaxError, UnicodeError):
        text = io.TextIOWrapper(io.BytesIO(source), encoding="latin-1")
        return text.readlines()
