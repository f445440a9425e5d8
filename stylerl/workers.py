"""The judge's processes: started once, reused, replaced when they die.

Each is a fresh interpreter that runs stylerl/judge_worker.py; nothing is
forked, so torch and threads in this process do no harm, and the caller's
script is not imported again, as multiprocessing would do.  Idle workers
wait for the next call and end with this process.
"""

import atexit
import dataclasses
import marshal
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError, StylerlError
from stylerl.verdict import Verdict, Violation

SCRIPT = Path(__file__).with_name("judge_worker.py")
TIME_IS_UP = {-signal.SIGPROF, -signal.SIGALRM}

# How the reasons begin that a process's end gave, which may be another on
# another machine, or tomorrow.
NOT_DONE = "flake8 was not done"
CRASHED = "flake8 crashed"

# A worker holds so much work at most.  That keeps it busy while the answers
# travel, and is less than a socket's buffer, so neither side ever waits for
# the other to read.
DEPTH = 16  # sources
BYTES = 32 * 1024

# Sources read ahead of the oldest one unanswered, for each worker.
AHEAD = 256

KEPT = 3  # configurations whose workers wait for the next call
PATIENCE = 5.0  # seconds for a process to end after its socket
STARTS = 3  # workers that may die at their start before we give up


class Task(NamedTuple):
    """One source on its way to a verdict."""

    place: int  # among the caller's sources
    source: bytes
    path: str
    retried: bool = False


class Worker:
    """One process, and what it has been given and not yet answered."""

    def __init__(self, config: JudgeConfig) -> None:
        self.pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(SCRIPT), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        self.ready = False
        self.pending: deque[Task] = deque()
        self._bytes = 0
        self._send((module_path(), dataclasses.asdict(config)))

    def has_room(self, task: Task) -> bool:
        """Whether the task can be sent without waiting."""
        return not self.pending or (
            len(self.pending) < DEPTH
            and self._bytes + len(task.source) <= BYTES
        )

    def give(self, task: Task) -> None:
        """Send one task."""
        self.pending.append(task)
        self._bytes += len(task.source)
        self._send((task.source, task.path))

    def receive(self) -> tuple[Task, Verdict] | None:
        """The next answer; None for the greeting a worker starts with.

        Raises:
            ConfigError: flake8 refuses the configuration.
            EOFError, ConnectionError: the process is dead.
        """
        message = marshal.loads(self.pipe.recv_bytes())
        if not self.ready:
            status, why = message
            if status == "refused":
                raise ConfigError(why)
            self.ready = True
            return None
        task = self.pending.popleft()
        self._bytes -= len(task.source)
        found, parsed, reason = message
        violations = tuple(Violation._make(values) for values in found)
        return task, Verdict(violations, parsed, reason)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()

    def exit_code(self) -> int:
        """How a process ended whose socket closed; negative is a signal."""
        self.pipe.close()
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _send(self, message: Any) -> None:
        # A dead process is noticed where its answer is read.
        with suppress(ConnectionError):
            self.pipe.send_bytes(marshal.dumps(message))


class Crew:
    """The workers of one configuration, lent to one call at a time each."""

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._idle: list[Worker] = []
        self._closed = False
        self._lock = threading.Lock()

    def judge(
        self, sources: Iterable[tuple[bytes, str]], jobs: int
    ) -> Iterator[Verdict]:
        """The verdicts on (source, path) pairs, in their order.

        Sources are read as they are needed, so a stream of any length takes
        constant memory.

        Args:
            sources: each with the file name it is judged under.
            jobs: processes at most.

        Raises:
            ConfigError: flake8 refuses the configuration.
            StylerlError: the workers die before they can judge.
        """
        return _Run(self, sources, jobs).verdicts()

    def take(self, most: int) -> list[Worker]:
        """Idle workers, `most` of them at most."""
        with self._lock:
            taken, self._idle = self._idle[:most], self._idle[most:]
        return taken

    def put_back(self, worker: Worker) -> None:
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
    """One call of Crew.judge: who works on what, and what came back."""

    def __init__(
        self, crew: Crew, sources: Iterable[tuple[bytes, str]], jobs: int
    ) -> None:
        self._crew = crew
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
            for worker in self._crew.take(self._jobs):
                self._enlist(worker)
            while True:
                self._hand_out()
                while self._next in self._answers:
                    yield self._answers.pop(self._next)
                    self._next += 1
                if self._exhausted and self._next == self._read:
                    return
                for key, _ in self._selector.select():
                    self._collect(key.data)
        finally:
            self._dismiss()

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
        if self._exhausted or self._read - self._next > AHEAD * self._jobs:
            return None
        try:
            index, (source, path) = next(self._sources)
        except StopIteration:
            self._exhausted = True
            return None
        self._read = index + 1
        return Task(index, source, path)

    def _worker_for(self, task: Task) -> Worker | None:
        """The least busy worker with room, or a new one."""
        free = [worker for worker in self._workers if worker.has_room(task)]
        if free:
            return min(free, key=lambda worker: len(worker.pending))
        if len(self._workers) < self._jobs:
            return self._enlist(Worker(self._crew.config))
        return None

    def _enlist(self, worker: Worker) -> Worker:
        self._workers.add(worker)
        self._selector.register(worker.pipe, selectors.EVENT_READ, worker)
        return worker

    def _collect(self, worker: Worker) -> None:
        """Take one message of a worker, or notice its death."""
        try:
            answer = worker.receive()
        except (EOFError, ConnectionError):
            self._bury(worker)
            return
        if answer is not None:
            task, verdict = answer
            self._answers[task.place] = verdict

    def _bury(self, worker: Worker) -> None:
        """Blame the source a dead worker was at; save those behind it."""
        self._workers.remove(worker)
        self._selector.unregister(worker.pipe)
        code = worker.exit_code()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts > STARTS:
                raise StylerlError(
                    "the judge's worker must start; it ended with code "
                    f"{code}; try: {sys.executable} -m flake8 --version"
                )
        elif worker.pending:
            task = worker.pending.popleft()
            if code in TIME_IS_UP:
                limit = self._crew.config.time_limit
                reason = f"{NOT_DONE} within {limit:g} s"
                self._answers[task.place] = Verdict((), False, reason)
            elif task.retried:
                reason = f"{CRASHED}: {_ending(code)}"
                self._answers[task.place] = Verdict((), False, reason)
            else:  # the source may be innocent: someone killed the worker
                self._again.append(task._replace(retried=True))
        self._again.extend(worker.pending)

    def _dismiss(self) -> None:
        """Lend the workers back; end those that a broken call left busy."""
        self._selector.close()
        for worker in self._workers:
            if worker.ready and not worker.pending:
                self._crew.put_back(worker)
            else:
                worker.close()


def crew(config: JudgeConfig) -> Crew:
    """This process's workers for a configuration.

    Those of the last few configurations are kept, so that their processes
    do not pile up.
    """
    key = (os.getpid(), config)
    with _LOCK:
        _CREWS[key] = found = _CREWS.pop(key, None) or Crew(config)
        mine = [other for other in _CREWS if other[0] == key[0]]
        for oldest in mine[:-KEPT]:
            _CREWS.pop(oldest).close()
    return found


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def module_path() -> list[str]:
    """This process's sys.path, the working directory last.

    A file in the working directory that is called like one of flake8's
    modules must not be taken for it.
    """
    here = {"", os.getcwd()}
    return [*(p for p in sys.path if p not in here), os.getcwd()]


def _ending(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


_CREWS: dict[tuple[int, JudgeConfig], Crew] = {}  # the latest last
_LOCK = threading.Lock()


@atexit.register
def _close_crews() -> None:
    for (process, _), idle in _CREWS.items():
        if process == os.getpid():
            idle.close()
