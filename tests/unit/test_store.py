"""Whether a tracking store can be used, and what is said where not."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stylerl.pipeline import reach, store

# A writer that is killed with half of its pages in the file.
KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
db.executemany("UPDATE t SET a = ?", [("y" * 9000,)] * 3)
db.executemany("INSERT INTO t VALUES (?)", [("z" * 9000,)] * 99)
os._exit(9)
"""


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of one row, which nobody has asked yet."""
    file = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE t (a)")
        made.execute("INSERT INTO t VALUES ('x')")
        made.commit()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{file}")
    return file


def rows(file: Path) -> Iterator[tuple[str]]:
    with closing(sqlite3.connect(file)) as found:
        yield from found.execute("SELECT a FROM t").fetchall()


def test_what_a_killed_writer_left_is_taken_back(database: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(database)])
    journal = database.with_name("mlflow.db-journal")
    assert journal.exists()
    assert store.best_effort(lambda: store.look_into(database))
    assert not journal.exists()
    assert [*rows(database)] == [("x",)]


def test_a_store_in_which_another_writes_is_one(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert store.best_effort(lambda: store.look_into(database))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://me:word@host:1/api", "http://host:1/api"),
        ("http://me:w@rd@host/api", "http://host/api"),
        ("http://me:w/rd@host/api", "http://host/api"),
        (
            "no answer of https://a:b@c/d, or of e",
            "no answer of https://c/d, or of e",
        ),
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
    ],
)
def test_no_password_is_shown(text: str, said: str) -> None:
    assert reach.shown(text) == said


def test_what_went_wrong_is_said_without_a_password(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call() -> None:
        raise ValueError("request to http://me:word@host/api failed")

    assert not store.best_effort(call)
    assert capsys.readouterr().err == (
        "MLflow: not logged: request to http://host/api failed\n"
    )
