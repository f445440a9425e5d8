"""Run a command as a child that streams its output and cannot be orphaned.

The child leads a session of its own.  When this process is interrupted,
cancelled or fails, the whole session is ended; when it is killed outright,
the session's leader, process.py, is told so and does the same.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

GRACE = 10.0  # seconds between SIGTERM and SIGKILL
BAR_EVERY = 30.0  # seconds between two log lines of one progress bar
TAIL = 40  # lines kept to tell a failure by


class ExitStatus(NamedTuple):
    """How a child ended."""

    code: int  # exit code; -N where signal N killed it
    tail: str  # its last lines of output


def run_command(
    command: Sequence[str],
    log: Callable[[str], object],
    env: Mapping[str, str] | None = None,
) -> ExitStatus:
    """Run `command`, pass each line of its output to `log`, and wait.

    Progress bars are drawn on the terminal where there is one, and logged
    now and then where there is none.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "stylerl.pipeline.process", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        start_new_session=True,
    )
    output = _Output(log)
    try:
        assert child.stdout is not None
        with child.stdout as pipe:
            while chunk := os.read(pipe.fileno(), 65536):
                output.feed(chunk.decode(errors="replace"))
        code = child.wait()
    except BaseException:
        end_session(child)
        raise
    output.finish()
    return ExitStatus(code, "\n".join(output.tail))


def end_session(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM to a session's leader and all of its children, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


class _Output:
    """Splits a stream into lines, and into states of a progress bar.

    A bar is what follows a carriage return: it is overwritten until a line
    feed makes its last state a line.
    """

    def __init__(self, log: Callable[[str], object]) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._log = log
        self._pending = ""  # after the last line feed
        self._terminal = sys.stderr.isatty()
        self._drawn = False
        self._bar_logged = time.monotonic()

    def feed(self, text: str) -> None:
        """Take the next piece of output."""
        *lines, rest = (self._pending + text).split("\n")
        for line in lines:
            self._line(line)
        bar = _last_state(rest)
        if "\r" in rest:  # what follows the last one is a new state
            rest = "\r" + bar + "\r" * rest.endswith("\r")
        self._pending = rest
        if "\r" in rest and bar:
            self._bar(bar)

    def finish(self) -> None:
        """Log what came after the last line feed."""
        self._line(self._pending)

    def _line(self, line: str) -> None:
        self._erase()
        if text := _last_state(line):
            self.tail.append(text)
            self._log(text)

    def _bar(self, bar: str) -> None:
        if self._terminal:
            self._erase()
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(bar[: width - 1])
            sys.stderr.flush()
            self._drawn = True
        elif time.monotonic() - self._bar_logged > BAR_EVERY:
            self._bar_logged = time.monotonic()
            self._log(bar)

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            self._drawn = False


def _last_state(line: str) -> str:
    """What a terminal would show of a line with carriage returns."""
    states = [state for state in line.split("\r") if state.strip()]
    return states[-1].rstrip() if states else ""
