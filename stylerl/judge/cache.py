"""Verdicts kept on disk, found again by content.

The key is a hash of the judge's identity (versions and options), the file
name and the source, so an entry never grows stale: another flake8 or another
rule makes other keys.  A run that was killed resumes where it stopped, and
processes may share the file.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stylerl.errors import DataError, DiskError
from stylerl.judge.verdict import Verdict, Violation

WAIT = 60.0  # seconds for another process to finish its writing
AT_ONCE = 500  # keys a query; SQLite allows 999 variables


class VerdictCache:
    """One SQLite file."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Args:
            path: the file; its folder is made.

        Raises:
            DataError: the file is not a cache, or cannot be made.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                f"a cache must be in a folder that can be made; {path}: "
                f"{error.strerror}"
            ) from error
        with self._connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS verdicts "
                "(key BLOB PRIMARY KEY, verdict TEXT)"
            )

    @staticmethod
    def key(identity: str, source: bytes, path: str) -> bytes:
        """The key of one source under one file name and one judge."""
        digest = hashlib.blake2b(digest_size=16)
        # With their lengths, so that no two pairs give the same bytes.
        for part in (identity.encode(), os.fsencode(path)):
            digest.update(len(part).to_bytes(8, "big") + part)
        digest.update(source)
        return digest.digest()

    def read(self, keys: list[bytes]) -> dict[bytes, Verdict]:
        """The verdicts that are known.

        Raises:
            DataError: the file is damaged.
        """
        known = {}
        with self._connection() as connection:
            for start in range(0, len(keys), AT_ONCE):
                some = keys[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = connection.execute(
                    f"SELECT * FROM verdicts WHERE key IN ({marks})", some
                )
                known.update({key: _decode(text) for key, text in rows})
        return known

    def write(self, verdicts: Iterable[tuple[bytes, Verdict]]) -> None:
        """Add verdicts, all of them or none.

        Raises:
            DataError: the file is damaged.
        """
        # Sorted as the index is: half the time, once the file is large.
        rows = sorted((key, _encode(verdict)) for key, verdict in verdicts)
        with self._connection() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO verdicts VALUES (?, ?)", rows
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction, so that forks and threads can
        share this object."""
        try:
            connection = sqlite3.connect(self._path, timeout=WAIT)
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            from stylerl import storage  # and pandas, which takes a second

            reason = storage.refusal(error)
            if reason and not self._path.is_dir():
                raise DiskError(
                    f"cannot write {self._path}: {reason}"
                ) from error
            raise DataError(
                f"{self._path} must be a cache that can be read and written: "
                f"{error}"
            ) from error
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise DataError(
                f"{self._path} must be a cache of verdicts: {error}; delete "
                "it, and a new one is made"
            ) from error


def _encode(verdict: Verdict) -> str:
    return json.dumps([verdict.violations, verdict.parsed, verdict.reason])


def _decode(text: str) -> Verdict:
    found, parsed, reason = json.loads(text)
    return Verdict(
        tuple(Violation(*values) for values in found), parsed, reason
    )
