"""The verdict cache: found again, never stale, shared, resumable."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stylerl.config import JudgeConfig
from stylerl.errors import DataError
from stylerl.judge import Judge, pool
from stylerl.judge.verdict import Verdict, Violation

SOURCES = ["x=1\n", "x = 1\n", "def f(:\n", "y = 'é' \n", "x=1\n"]


def test_the_second_time_flake8_is_not_asked(
    tmp_path: Path, judged: list[bytes]
) -> None:
    cache = tmp_path / "new" / "verdicts.sqlite"
    plain = list(Judge(JudgeConfig()).verdicts(SOURCES))
    judged.clear()
    assert list(Judge(JudgeConfig(), cache).verdicts(SOURCES)) == plain
    assert len(judged) == 4  # the fifth source is the first again
    assert list(Judge(JudgeConfig(), cache).verdicts(SOURCES)) == plain
    assert Judge(JudgeConfig(), cache).verdict(SOURCES[2]) == plain[2]
    assert len(judged) == 4


def test_another_judge_or_file_name_is_another_entry(
    tmp_path: Path, judged: list[bytes]
) -> None:
    cache = tmp_path / "verdicts.sqlite"
    Judge(JudgeConfig(), cache).verdict("x=1\n")
    other = Judge(JudgeConfig(ignore=("E225",)), cache)
    assert other.verdict("x=1\n").compliant
    Judge(JudgeConfig(), cache).verdict("x=1\n", path="other.py")
    assert len(judged) == 3


def test_killed_work_goes_on_where_it_stopped(
    tmp_path: Path, judged: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stylerl.judge.judge.BATCH", 10)
    cache = tmp_path / "verdicts.sqlite"
    sources = [f"x = {number}\n" for number in range(35)]
    first = Judge(JudgeConfig(), cache).verdicts(sources)
    for _ in range(12):  # stops within the second batch
        next(first)
    first.close()
    assert len(judged) == 20
    assert len(list(Judge(JudgeConfig(), cache).verdicts(sources))) == 35
    assert len(judged) == 35


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("E999 SyntaxError: invalid syntax", True),
        ("flake8 failed: RecursionError: too deep", True),
        ("flake8 was not done within 10 s", False),
        ("flake8 crashed: killed by SIGKILL", False),
    ],
)
def test_what_a_machine_did_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, kept: bool
) -> None:
    asked = []

    def judge(*arguments: object) -> Iterator[Verdict]:
        asked.extend(list(arguments[1]))  # type: ignore[call-overload]
        return iter([Verdict((), False, reason)] * len(asked[-1:]))

    monkeypatch.setattr(pool.WorkerPool, "judge", judge)
    cached = Judge(JudgeConfig(), tmp_path / "verdicts.sqlite")
    assert cached.verdict("x") == Verdict((), False, reason)
    monkeypatch.setattr(
        pool.WorkerPool,
        "judge",
        lambda _, sources, jobs: iter(
            [Verdict((Violation(1, 1, "E1", "asked"),)) for _ in sources]
        ),
    )
    assert bool(cached.verdict("x").reason) == kept


@pytest.mark.parametrize(
    "content", [b"no database", b"SQLite format 3\0" + b"\xff" * 500]
)
def test_another_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "verdicts.sqlite"
    path.write_bytes(content)
    with pytest.raises(DataError, match="delete it"):
        Judge(JudgeConfig(), path)


def test_a_damaged_entry_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    judge = Judge(JudgeConfig(), path)
    judge.verdict("x=1\n")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE verdicts SET verdict = '[1]'")
    connection.close()
    with pytest.raises(DataError, match="delete it"):
        judge.verdict("x=1\n")
