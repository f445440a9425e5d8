"""flake8's checker of one file, on bytes; `# noqa` does not count."""

import ast
import io
import tokenize
from argparse import Namespace

from flake8.checker import FileChecker
from flake8.plugins.finder import Checkers
from flake8.processor import FileProcessor

from stylerl.judge import excerpt
from stylerl.judge.excerpt import Window
from stylerl.judge.verdict import Extent


class Processor(FileProcessor):
    """A file's rows, and of its syntax tree what one function needs."""

    extent: Extent | None = None  # of the function; None asks for all
    window: Window | None = None  # the rows that will do, once there is a tree

    def build_ast(self) -> ast.Module:
        """The file's tree; functions that do not matter are emptied."""
        tree: ast.Module = super().build_ast()
        if self.extent:
            statement = excerpt.find(tree, self.lines, self.extent)
            if statement:
                excerpt.prune(tree, self.lines, statement)
                self.window = excerpt.window(self.lines, self.extent)
        return tree


class Checker(FileChecker):
    """Checks one source, or the rows of one of its functions."""

    processor: Processor

    def __init__(
        self,
        source: bytes,
        path: str,
        plugins: Checkers,
        options: Namespace,
        extent: Extent | None = None,
    ) -> None:
        """Prepare to check a source.

        Args:
            source: the file's bytes.
            path: its name.
            plugins: what checks it.
            options: theirs.
            extent: the rows whose findings are wanted, if not all are.
        """
        self._source = source
        self._shift = 0
        self.stopped: str | None = None  # the error flake8 stopped at
        super().__init__(filename=path, plugins=plugins, options=options)
        self.processor.extent = extent

    def _make_processor(self) -> Processor:
        return Processor(self.filename, self.options, read_lines(self._source))

    def process_tokens(self) -> None:
        """Check rows and logical lines, after the tree."""
        if part := self.processor.window:
            self.processor = Processor(self.filename, self.options, part.lines)
            self.processor.indent_char = part.indent_char
            self._shift = part.shift
        super().process_tokens()

    def report(
        self, error_code: str | None, line_number: int, column: int, text: str
    ) -> str:
        """Keep one finding; E902 and E999 are where flake8 gives up."""
        if error_code is None:
            error_code, text = text.split(" ", 1)
        else:
            self.stopped = f"{error_code} {text}"
        row = line_number + self._shift
        self.results.append((error_code, row, column, text, None))
        return error_code


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
