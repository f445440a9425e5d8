"""Run a command as a child that streams its output and cannot be orphaned.

The child leads a session of its own.  When this process is interrupted,
cancelled or fails, the whole session is ended; when it is killed outright,
the session's leader, process.py, is told so and does the same.
"""

import io
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

GRACE = 10.0  # seconds between SIGTERM and SIGKILL
BAR_EVERY = 30.0  # seconds between two log lines of one progress bar
TAIL = 40  # lines kept to tell a failure by
ERASE = "\r\x1b[2K"  # a terminal's line


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
    assert child.stdout is not None
    try:
        with io.TextIOWrapper(
            child.stdout, encoding="utf-8", errors="replace", newline=""
        ) as output:
            tail = _follow(output, log)
        code = child.wait()
    except BaseException:
        end_session(child)
        raise
    return ExitStatus(code, "\n".join(tail))


def end_session(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM to a session's leader and all of its children, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _follow(output: Iterable[str], log: Callable[[str], object]) -> list[str]:
    """Log the lines of an output until it ends; the last ones.

    What ends with a carriage return is a state of a progress bar, which the
    next one overwrites.
    """
    tail: deque[str] = deque(maxlen=TAIL)
    terminal, bar_logged = sys.stderr.isatty(), time.monotonic()
    for line in output:
        text = line.rstrip()
        if not text:
            continue
        if not line.endswith("\r"):
            if terminal:
                sys.stderr.write(ERASE)
            tail.append(text)
            log(text)
        elif terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write(ERASE + text[: width - 1])
            sys.stderr.flush()
        elif time.monotonic() - bar_logged > BAR_EVERY:
            bar_logged = time.monotonic()
            log(text)
    return [*tail]
