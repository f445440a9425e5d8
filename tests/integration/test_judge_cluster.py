"""The judge on a real Dask cluster: two worker processes on this machine."""

import gc
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from test_labels import CONFIG, _snippets

from stylerl import storage
from stylerl.config import JudgeConfig
from stylerl.data import labels
from stylerl.errors import ConfigError, StylerlError
from stylerl.judge import Judge, cluster
from stylerl.judge.verdict import Verdict

STYLE = JudgeConfig(time_limit=5.0)
SOURCES = [
    "x=1\n",
    "def f(:\n",
    b"\xff\n",
    "# coding: rot13\nk=1\n",  # crashes flake8
    *(f"x = {number}\n" for number in range(30)),
]


def local(workers: int, processes: bool = True) -> LocalCluster:
    """A cluster that listens on this machine alone."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local(2) as workers:
        yield workers.scheduler_address
    # Dask leaves failed futures behind.  Python 3.11 breaks off an ast.parse
    # (pytest's own, of the next module) in which they are thrown away.
    gc.collect()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "BATCH", 3)


class Killing(cluster.Cluster):
    """A cluster that loses a worker when a third of 60 labels is in."""

    victim = 0

    def judge(
        self, sources: Iterable[tuple[bytes, str]], jobs: int
    ) -> Iterator[Verdict]:
        for number, verdict in enumerate(super().judge(sources, jobs)):
            if number == 20:
                self.victim, _ = self.processes()
                os.kill(self.victim, signal.SIGKILL)
            yield verdict

    def processes(self) -> list[int]:
        return list(self._client.run(os.getpid).values())


def test_the_verdicts_are_those_of_this_machine(address: str) -> None:
    with cluster.connect(address, STYLE) as pool:
        assert pool.size() == 2
        there = list(Judge(STYLE, pool=pool).verdicts(SOURCES))
    assert there == list(Judge(STYLE).verdicts(SOURCES))


def test_a_worker_killed_midway_loses_nothing(
    address: str, tmp_path: Path
) -> None:
    with cluster.connect(address, STYLE) as pool:
        killing = Killing(pool._client, STYLE)
        judges = {"here": Judge(STYLE), "there": Judge(STYLE, pool=killing)}
        for name, judge in judges.items():
            table = labels.label(_snippets(), CONFIG, judge, seed=0)
            storage.write_table(tmp_path / name, table)
        assert killing.victim
        assert killing.victim not in killing.processes()
    there = (tmp_path / "there").read_bytes()
    assert there == (tmp_path / "here").read_bytes()


def test_a_worker_of_another_judge_is_refused(address: str) -> None:
    with cluster.connect(address, STYLE) as pool:
        pool._identity = "0123456789abcdef"
        with pytest.raises(ConfigError, match="0123456789abcdef"):
            list(pool.judge([(b"x=1\n", "a.py")], jobs=1))


def test_no_scheduler_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with (
        pytest.raises(ConfigError, match=f"must answer at '{address}'"),
        cluster.connect(address, STYLE),
    ):
        pass


@pytest.mark.parametrize(
    "address", ["here", "http://127.0.0.1:1", "tcp://", "tcp://a:b"]
)
def test_no_address_is_one_error(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    before = loops()
    with (
        pytest.raises(ConfigError, match="must answer at"),
        cluster.connect(address, STYLE),
    ):
        pass
    # A client left open is closed by the garbage collector, which waits for
    # it in whatever thread it runs.
    assert loops() == before


def loops() -> int:
    """The event loops that Dask runs in threads of this process."""
    return sum("IO loop" in thread.name for thread in threading.enumerate())


def test_no_worker_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with (
        local(0) as empty,
        pytest.raises(StylerlError, match="must have a worker"),
        cluster.connect(empty.scheduler_address, STYLE),
    ):
        pass


def test_workers_that_leave_are_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with local(1, processes=False) as leaving, Client(leaving) as client:
        pool = cluster.Cluster(client, STYLE)
        sources = ((f"x = {n}\n".encode(), "a.py") for n in range(100))
        verdicts = pool.judge(sources, jobs=1)
        next(verdicts)
        leaving.scale(0)
        with pytest.raises(StylerlError, match="must have a worker"):
            list(verdicts)
