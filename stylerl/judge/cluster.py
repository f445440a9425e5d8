"""The judge's work mapped over a Dask cluster.

    with connect("tcp://127.0.0.1:8786", JudgeConfig()) as cluster:
        Judge(JudgeConfig(), pool=cluster).verdicts(sources)

A Dask worker judges its batch as this machine would, in processes of its own
(pool.py): what kills flake8 kills no Dask worker, and the batch of a Dask
worker that dies goes to another.  Workers need this package and the same
versions of flake8 and Python; one whose judge differs is refused.

Dask runs whatever its clients send it: keep the scheduler inside a network
that you trust, or behind Dask's own TLS (tls://HOST:PORT).
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError, StylerlError, require
from stylerl.judge.judge import File, Judge
from stylerl.judge.verdict import Verdict

if TYPE_CHECKING:
    from distributed import Client, Future

BATCH = 64  # sources a task: some 60 ms of work, against 1 ms of Dask's own
AHEAD = 3  # tasks in flight for each of the cluster's threads
PATIENCE = 10.0  # seconds for a scheduler to answer, or a worker to appear


class Cluster:
    """The workers of one scheduler, under one configuration."""

    def __init__(self, client: "Client", config: JudgeConfig) -> None:
        self._client = client
        self._config = config
        self._identity = Judge(config).identity

    def size(self) -> int:
        """The threads of all workers; at least 1."""
        return max(1, sum(self._client.nthreads().values()))

    def judge(self, sources: Iterable[File], jobs: int) -> Iterator[Verdict]:
        """The verdicts on (source, path) pairs; `jobs` are threads.

        Raises:
            ConfigError: a worker's judge differs, or cannot be made.
            StylerlError: the scheduler or all of its workers are gone.
        """
        waiting: deque[Future] = deque()
        remaining = iter(sources)
        try:
            while batch := list(itertools.islice(remaining, BATCH)):
                waiting.append(self._submit(batch))
                if len(waiting) >= AHEAD * jobs:
                    yield from self._answer(waiting.popleft())
            while waiting:
                yield from self._answer(waiting.popleft())
        finally:
            self._client.cancel(list(waiting))

    def _submit(self, batch: list[File]) -> "Future":
        return self._client.submit(
            judge_batch, self._config, self._identity, batch, pure=False
        )

    def _answer(self, future: "Future") -> list[Verdict]:
        """Wait for one batch, as long as there is someone to do it."""
        from distributed import KilledWorker

        # In steps, so that a cluster whose last worker left is noticed.
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                if not self._client.nthreads():
                    raise _no_worker(self._client) from None
            except KilledWorker as error:
                raise StylerlError(
                    f"a Dask worker must survive a batch: {error}"
                ) from error
            except (CancelledError, OSError) as error:
                raise StylerlError(
                    "the Dask scheduler must stay: the connection is lost "
                    f"({error}); start it again and repeat"
                ) from error


@contextmanager
def connect(address: str, config: JudgeConfig) -> Iterator[Cluster]:
    """A cluster for the length of a block.

    Args:
        address: the scheduler's, such as tcp://127.0.0.1:8786.
        config: the style guide; a configuration file that it names must be
            at the same path on every worker.

    Raises:
        ConfigError: no scheduler answers at the address.
        StylerlError: it has no worker.
        MissingExtra: Dask is not installed.
    """
    require("cluster", "distributed")
    from distributed import Client
    from distributed.comm import get_address_host_port

    try:
        get_address_host_port(address)  # a ValueError of Client leaves it open
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"a Dask scheduler must answer at {address!r}; none does "
            f"({error}); start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS`"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise _no_worker(client) from error
        yield Cluster(client, config)


def judge_batch(
    config: JudgeConfig, identity: str, batch: list[File]
) -> list[Verdict]:
    """Judge some sources; this is what runs on a Dask worker.

    Raises:
        ConfigError: this machine's judge is not the caller's.
    """
    judge = Judge(config)
    if judge.identity != identity:
        raise ConfigError(
            "every Dask worker must have the caller's versions of Python, "
            "flake8 and plugins, and where files are ignored by name its "
            f"working directory; the judge is {identity} there, and here "
            f"{judge.identity}, of {judge.versions}"
        )
    return list(judge.judge_files(batch, jobs=1))


def _no_worker(client: "Client") -> StylerlError:
    address = client.scheduler_info()["address"]
    return StylerlError(
        f"the Dask scheduler {address} must have a worker; it has none: "
        f"start one with `dask worker {address}`"
    )
