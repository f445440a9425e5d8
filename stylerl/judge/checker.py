"""flake8's checker of one file, on bytes; `# noqa` does not count."""

import io
import tokenize
from argparse import Namespace

from flake8.checker import FileChecker
from flake8.plugins.finder import Checkers
from flake8.processor import FileProcessor


class Checker(FileChecker):
    """Checks one source."""

    processor: FileProcessor

    def __init__(
        self, source: bytes, path: str, plugins: Checkers, options: Namespace
    ) -> None:
        self._source = source
        self.stopped: str | None = None  # the error flake8 stopped at
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
