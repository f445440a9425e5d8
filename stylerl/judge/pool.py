"""The judge's processes: shared by calls, reused, replaced when they die.

Each judges one source at a time, for a thread that waits.  Idle workers wait
for the next call, and end with this process, which holds their sockets.  A
source whose worker died is tried once more in a new one, since the worker may
have been killed by someone, and then gets a verdict that says how it ended.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from stylerl.config import JudgeConfig
from stylerl.errors import StylerlError
from stylerl.judge import worker_process
from stylerl.judge.verdict import Source, Verdict
from stylerl.judge.worker_process import (
    TIMEOUT_CODES,
    Worker,
    describe_exit,
)

CRASHED = "flake8 crashed"  # how the reason begins

READ_AHEAD = 256  # sources a process, beyond the oldest unanswered one


def in_order(
    judge: Callable[[Source], Verdict],
    sources: Iterable[Source],
    jobs: int,
) -> Iterator[Verdict]:
    """The verdicts in the order of the sources.

    Args:
        judge: waits for a process.
        sources: read as they are needed.
        jobs: threads that wait.
    """
    waiting: deque[Future[Verdict]] = deque()
    threads = ThreadPoolExecutor(jobs)
    try:
        for source in sources:
            waiting.append(threads.submit(judge, source))
            while waiting and (
                len(waiting) > READ_AHEAD * jobs or waiting[0].done()
            ):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class WorkerPool:
    """The workers of one configuration; each serves one thread at a time."""

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._idle: list[Worker] = []

    def judge(self, sources: Iterable[Source], jobs: int) -> Iterator[Verdict]:
        """The verdicts on sources; `jobs` are processes.

        Raises:
            ConfigError: flake8 refuses the configuration.
            StylerlError: the workers die before they can judge.
        """
        return in_order(self._judge, sources, jobs)

    def options(self) -> dict[str, Any]:
        """What flake8 made of the configuration.

        Returns:
            `filename`, the patterns of files that flake8 would check in a
            folder; `exclude`, those of what it would not; `width`, the
            columns of a line.

        Raises:
            ConfigError: flake8 refuses the configuration.
            StylerlError: the worker dies before it can answer.
        """
        worker = self.acquire()
        self.release(worker)
        return worker.options

    def acquire(self) -> Worker:
        """An idle worker, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return _start(self.config)

    def release(self, worker: Worker) -> None:
        """A worker is idle again."""
        self._idle.append(worker)

    def _judge(self, source: Source) -> Verdict:
        verdict = self._try(source, self.acquire())
        if verdict.reason and verdict.reason.startswith(CRASHED):
            # The source may be innocent: someone killed the worker.
            verdict = self._try(source, _start(self.config))
        return verdict

    def _try(self, source: Source, worker: Worker) -> Verdict:
        """A worker's verdict, or why the worker ended."""
        try:
            verdict = worker.judge(source)
        except (EOFError, OSError):  # also in the middle of an answer
            code = worker.exit_code()
            reason = f"{CRASHED}: {describe_exit(code)}"
            if code in TIMEOUT_CODES:
                limit = worker_process.TIME_LIMIT
                reason = f"flake8 was not done within {limit:g} s"
            return Verdict((), False, reason)
        self.release(worker)
        return verdict


def _start(config: JudgeConfig) -> Worker:
    """A new worker, ready to judge.

    Raises:
        ConfigError: flake8 refuses the configuration.
        StylerlError: the machine has no process, file or memory left for it,
            or it dies before it can judge.
    """
    try:
        worker = Worker()
    except OSError as error:
        raise StylerlError(
            f"the judge must be able to start a process: {error.strerror}"
        ) from error
    try:
        worker.greet(config)
    except (EOFError, OSError) as error:
        raise StylerlError(
            "the judge's worker must start; it ended with code "
            f"{worker.exit_code()}; try: {sys.executable} -m flake8 --version"
        ) from error
    return worker


@lru_cache(maxsize=3)
def shared_pool(config: JudgeConfig, identity: str) -> WorkerPool:
    """This process's workers for a judge; those of the last three are kept.

    The judge's identity distinguishes a configuration file from the same one
    before an edit.  A worker ends when the pool that holds its socket goes.
    """
    return WorkerPool(config)


def _forget() -> None:
    """After a fork, the parent's processes are not the child's."""
    shared_pool.cache_clear()


os.register_at_fork(after_in_child=_forget)


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
