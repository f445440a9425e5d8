"""One process of the judge: start it, feed it, learn how it ended.

Each is a fresh interpreter that runs stylerl/judge/worker_main.py; nothing is
forked, so torch and threads in this process do no harm, and the caller's
script is not imported again, as multiprocessing would do.
"""

import dataclasses
import marshal
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError
from stylerl.judge.plugin_code import module_path
from stylerl.judge.verdict import Source, Verdict, Violation

SCRIPT = Path(__file__).with_name("worker_main.py")
TIMEOUT_CODES = {-signal.SIGPROF, -signal.SIGALRM}

# Limits of what a worker holds.  They keep it busy while the answers travel,
# and are below a socket's buffer, so neither side ever waits for the other to
# read.
MAX_PENDING = 16  # sources
MAX_PENDING_BYTES = 32 * 1024

TIME_LIMIT = 10.0  # seconds that flake8 may spend on one source
EXIT_TIMEOUT = 5.0  # seconds for a process to end after its socket


class Task(NamedTuple):
    """One source on its way to a verdict."""

    number: int  # among the caller's sources
    source: Source
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
        self.options: dict[str, list[str]] = {}  # when it is ready
        self.pending: deque[Task] = deque()
        self._bytes = 0
        fields = dataclasses.asdict(config)
        self._send((module_path(), fields, TIME_LIMIT))

    def has_room(self, task: Task) -> bool:
        """Whether the task can be sent without waiting."""
        return not self.pending or (
            len(self.pending) < MAX_PENDING
            and self._bytes + len(task.source.content) <= MAX_PENDING_BYTES
        )

    def give(self, task: Task) -> None:
        """Send one task."""
        self.pending.append(task)
        self._bytes += len(task.source.content)
        content, path, extent = task.source
        self._send((content, path, extent and tuple(extent)))

    def receive(self) -> tuple[Task, Verdict] | None:
        """The next answer; None for the greeting a worker starts with.

        Raises:
            ConfigError: flake8 refuses the configuration.
            EOFError, ConnectionError: the process is dead.
        """
        message = marshal.loads(self.pipe.recv_bytes())
        if not self.ready:
            status, facts = message
            if status == "refused":
                raise ConfigError(facts)
            self.ready, self.options = True, facts
            return None
        task = self.pending.popleft()
        self._bytes -= len(task.source.content)
        found, parsed, reason = message
        violations = tuple(Violation._make(values) for values in found)
        return task, Verdict(violations, parsed, reason)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()

    def exit_code(self) -> int:
        """The exit code of a process whose socket closed; below 0 a signal."""
        self.pipe.close()
        try:
            return self._process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _send(self, message: Any) -> None:
        # A dead process is noticed where its answer is read.
        with suppress(ConnectionError):
            self.pipe.send_bytes(marshal.dumps(message))


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"
