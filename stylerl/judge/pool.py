"""The judge's processes: shared by calls, reused, replaced when they die.

Idle workers wait for the next call and end with this process.  A source
whose worker died is tried once more, since the worker may have been killed
by someone, and then gets a verdict that says how it ended; the sources after
it are judged by another worker.
"""

import atexit
import os
import selectors
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator

from stylerl.config import JudgeConfig
from stylerl.errors import StylerlError
from stylerl.judge import worker_process
from stylerl.judge.verdict import Source, Verdict
from stylerl.judge.worker_process import (
    TIMEOUT_CODES,
    Task,
    Worker,
    describe_exit,
)

# Reasons that come from how a process ended begin so; on another machine, or
# another day, it may end differently, so these verdicts are not cached.
NOT_DONE = "flake8 was not done"
CRASHED = "flake8 crashed"

READ_AHEAD = 256  # sources a worker, beyond the oldest unanswered one
MAX_FAILED_STARTS = 3  # workers that may die at their start, one after another
KEPT_POOLS = 3  # judges whose workers wait for the next call


class WorkerPool:
    """The workers of one configuration; each serves one call at a time."""

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._idle: list[Worker] = []
        self._closed = False
        self._lock = threading.Lock()

    def judge(self, sources: Iterable[Source], jobs: int) -> Iterator[Verdict]:
        """The verdicts on sources; `jobs` are processes.

        Raises:
            ConfigError: flake8 refuses the configuration.
            StylerlError: the workers die before they can judge.
        """
        return _Run(self, sources, jobs).verdicts()

    def options(self, jobs: int) -> dict[str, list[str]]:
        """What flake8 made of the configuration.

        Returns:
            `filename`, the patterns of files that flake8 would check in a
            folder; `exclude`, those of what it would not; `warnings` about
            rules that find nothing.

        Args:
            jobs: processes to start meanwhile, for the work that follows.

        Raises:
            ConfigError: flake8 refuses the configuration.
            StylerlError: the worker dies before it can answer.
        """
        workers = self.acquire(jobs)
        try:
            while len(workers) < jobs:
                workers.append(_start(self.config))
            while not workers[0].ready:
                workers[0].receive()
        except (EOFError, ConnectionError) as error:
            raise _cannot_start(workers[0].exit_code()) from error
        finally:
            sound = bool(workers) and workers[0].ready
            for worker in workers:
                self.release(worker) if sound else worker.close()
        return workers[0].options

    def size(self) -> int:
        """The jobs that can be done at once."""
        return cores()

    def acquire(self, limit: int) -> list[Worker]:
        """Idle workers, at most `limit`."""
        with self._lock:
            taken, self._idle = self._idle[:limit], self._idle[limit:]
        return taken

    def release(self, worker: Worker) -> None:
        """A worker is idle again."""
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """End the idle workers, and the others as soon as they are."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


class _Run:
    """One call of WorkerPool.judge: who works on what, and what came back."""

    def __init__(
        self, pool: WorkerPool, sources: Iterable[Source], jobs: int
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._sources = enumerate(sources)
        self._exhausted = False
        self._again: deque[Task] = deque()
        self._answers: dict[int, Verdict] = {}
        self._next = 0  # the index to yield next
        self._read = 0  # sources read so far
        self._workers: set[Worker] = set()
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0

    def verdicts(self) -> Iterator[Verdict]:
        """Hand out the sources, and yield the answers in order."""
        try:
            for worker in self._pool.acquire(self._jobs):
                self._add_worker(worker)
            while True:
                while self._next in self._answers:
                    yield self._answers.pop(self._next)
                    self._next += 1
                # Afterwards, since an answer may have been what all waited
                # for: nothing is read further ahead of the oldest one.
                self._hand_out()
                if self._exhausted and self._next == self._read:
                    return
                # Until a worker answers, or its socket closes.
                for key, _ in self._selector.select():
                    self._collect(key.data)
        finally:
            self._release_all()

    def _hand_out(self) -> None:
        """Give every worker as much as it can take."""
        while (task := self._next_task()) is not None:
            worker = self._worker_for(task)
            if worker is None:
                self._again.appendleft(task)
                return
            worker.give(task)

    def _next_task(self) -> Task | None:
        if self._again:
            return self._again.popleft()
        ahead = self._read - self._next
        if self._exhausted or ahead > READ_AHEAD * self._jobs:
            return None
        try:
            index, source = next(self._sources)
        except StopIteration:
            self._exhausted = True
            return None
        self._read = index + 1
        return Task(index, source)

    def _worker_for(self, task: Task) -> Worker | None:
        """The least busy worker with room, or a new one."""
        free = [worker for worker in self._workers if worker.has_room(task)]
        if free:
            return min(free, key=lambda worker: len(worker.pending))
        if len(self._workers) < self._jobs:
            try:
                return self._add_worker(_start(self._pool.config))
            except StylerlError:
                if not self._workers:
                    raise
        return None

    def _add_worker(self, worker: Worker) -> Worker:
        self._workers.add(worker)
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        return worker

    def _collect(self, worker: Worker) -> None:
        """Take one message of a worker, or notice its death."""
        try:
            answer = worker.receive()
        except (EOFError, OSError):  # also in the middle of an answer
            self._replace_dead(worker)
            return
        if answer is not None:
            task, verdict = answer
            self._answers[task.number] = verdict
            self._failed_starts = 0

    def _replace_dead(self, worker: Worker) -> None:
        """Blame the source a dead worker was at; queue the rest again."""
        self._workers.remove(worker)
        self._selector.unregister(worker.pipe)
        code = worker.exit_code()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts > MAX_FAILED_STARTS:
                raise _cannot_start(code)
        elif worker.pending:
            task = worker.pending.popleft()
            if code in TIMEOUT_CODES:
                limit = worker_process.TIME_LIMIT
                reason = f"{NOT_DONE} within {limit:g} s"
                self._answers[task.number] = Verdict((), False, reason)
            elif task.retried:
                reason = f"{CRASHED}: {describe_exit(code)}"
                self._answers[task.number] = Verdict((), False, reason)
            else:  # the source may be innocent: someone killed the worker
                self._again.append(task._replace(retried=True))
        self._again.extend(worker.pending)

    def _release_all(self) -> None:
        """Return the workers; end those that an aborted call left busy."""
        self._selector.close()
        for worker in self._workers:
            if worker.ready and not worker.pending:
                self._pool.release(worker)
            else:
                worker.close()


def _start(config: JudgeConfig) -> Worker:
    """A new worker.

    Raises:
        StylerlError: the machine has no process, file or memory left for it.
    """
    try:
        return Worker(config)
    except OSError as error:
        raise StylerlError(
            f"the judge must be able to start a process: {error.strerror}"
        ) from error


def _cannot_start(code: int) -> StylerlError:
    return StylerlError(
        f"the judge's worker must start; it ended with code {code}; try: "
        f"{sys.executable} -m flake8 --version"
    )


def shared_pool(config: JudgeConfig, identity: str) -> WorkerPool:
    """This process's workers for a judge.

    Those of the last KEPT_POOLS are kept, so that their processes do not
    accumulate.  The judge's identity distinguishes a configuration file from
    the same one before an edit.
    """
    # After a fork, the parent's processes are not the child's.
    key = (os.getpid(), config, identity)
    with _LOCK:
        _POOLS[key] = found = _POOLS.pop(key, None) or WorkerPool(config)
        mine = [other for other in _POOLS if other[0] == key[0]]
        for oldest in mine[:-KEPT_POOLS]:
            _POOLS.pop(oldest).close()
    return found


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_POOLS: dict[tuple[int, JudgeConfig, str], WorkerPool] = {}  # the latest last
_LOCK = threading.Lock()


@atexit.register
def _close_pools() -> None:
    for (process, *_), idle in _POOLS.items():
        if process == os.getpid():
            idle.close()
