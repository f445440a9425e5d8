"""A stage as a process: its exit codes, and its end with its parent's.

`python -m tasks.<stage>` is a child of DVC, which is a child of the flow.
The exit code tells the flow what a failure means, because nothing else
crosses two processes reliably.

`python -m stylerl.pipeline.process PROGRAM ARGUMENT...` runs PROGRAM in a
session that is killed as a whole when the process that started it is gone.
"""

import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from stylerl.errors import DiskError, StylerlError

USER_ERROR = 2  # the input's fault: trying again cannot help
TRANSIENT = 75  # EX_TEMPFAIL of sysexits.h: trying again may help
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_NETWORK = {  # of requests and httpx, which are not loaded here
    "ConnectError",
    "ConnectionError",
    "ConnectTimeout",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RetryError",
}


def run_main(main: Callable[[], None]) -> None:
    """Run a stage's `main`, and exit as its outcome asks for.

    A network failure, or an error that one caused, exits with TRANSIENT; a
    StylerlError, or a file that the system refuses, prints its message alone
    and exits with USER_ERROR; any other exception is a bug and keeps its
    traceback.
    """
    die_with_parent()
    gc.freeze()  # what the stage imported, see `importing`
    try:
        main()
    except Exception as error:
        from stylerl import storage  # and pandas, which takes a second

        reason = storage.refusal(error)
        if reason and isinstance(error, OSError):
            error = DiskError(f"{error.filename or error}: {reason}")
        transient = from_network(error)
        if not transient and not isinstance(error, StylerlError):
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(TRANSIENT if transient else USER_ERROR)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask Linux to send this process a signal when its parent is gone.

    A flow that is cancelled ends its children itself; one that is killed
    cannot.  Other systems have no such call, and nothing is done there.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it went before the call took effect
        os.kill(os.getpid(), number)


@contextmanager
def importing() -> Iterator[None]:
    """Import large packages without a search for garbage, and keep them.

    Prefect and MLflow leave millions of objects that live as long as the
    process.  To look through them again and again took 40% of the time of
    their import, and of that of the exit.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def supervise(command: Sequence[str]) -> int:
    """Run `command`; its exit code, or 128 + N where signal N ended it.

    This process must lead its session.  What ends with its parent is the
    whole session: a shell between DVC and a stage asks Linux for nothing.
    """
    signal.signal(signal.SIGUSR1, lambda *_: os.killpg(0, signal.SIGKILL))
    for number in (signal.SIGTERM, signal.SIGINT):  # for the command
        signal.signal(number, lambda *_: None)
    die_with_parent(signal.SIGUSR1)
    code = subprocess.call(command)
    return code if code >= 0 else 128 - code


def from_network(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, is of the network."""
    while error is not None:
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if type(error).__name__ in _NETWORK:
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    sys.exit(supervise(sys.argv[1:]))
