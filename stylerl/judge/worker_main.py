"""A judge's worker process: sources in, verdicts out, over one socket.

Started by stylerl.judge.worker_process as `python -I worker_main.py FD`,
never by hand and never by forking: no other library is loaded here, and a
source that crashes flake8, exhausts its memory or never ends takes down this
process alone.  The kernel ends it when a source has had its time (SIGPROF for
CPU seconds, SIGALRM for seconds of the clock), and it exits by itself when
the other end of the socket closes.

Messages go over multiprocessing's Connection:

1. in:  (sys.path, the fields of JudgeConfig, seconds for a source)
2. out: ("ready", what flake8 made of them) or ("refused", why)
3. in:  a Source, any number of times, each answered in turn by
   out: its Verdict
"""

import gc
import resource
import signal
import sys
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stylerl.judge.engine import Engine

GARBAGE = 50_000  # objects between two collections
MEMORY = 4 * 2**30  # bytes of address space a worker may take
CLOCK = 6  # seconds of the clock a CPU second of the limit may take

# flake8 checks a file at this depth of Python frames, and we at our own; the
# difference is taken off the recursion limit, so that code nested too deep
# for one is too deep for both.
FLAKE8_DEPTH = 9 if sys.version_info < (3, 12) else 8
OUR_DEPTH = 5


def main(descriptor: int) -> None:
    """Serve until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    pipe = Connection(descriptor)
    try:
        path, fields, limit = pipe.recv()
        sys.path[:] = path
        engine = start(pipe, fields)
        if engine is not None:
            gc.freeze()  # flake8 itself is no garbage
            gc.set_threshold(GARBAGE)
            restrict_memory()
            sys.setrecursionlimit(
                sys.getrecursionlimit() - FLAKE8_DEPTH + OUR_DEPTH
            )
            while True:
                serve(pipe, engine, limit)
    except (EOFError, ConnectionError):
        return


def start(pipe: Connection, fields: dict[str, object]) -> "Engine | None":
    """Load flake8, and say whether it accepts the configuration."""
    from stylerl.errors import ConfigError
    from stylerl.judge.engine import Engine

    try:
        engine = Engine(SimpleNamespace(**fields))  # type: ignore[arg-type]
    except ConfigError as error:
        pipe.send(("refused", str(error)))
        return None
    options = engine.options
    facts = {
        "filename": list(options.filename),
        "exclude": [*options.exclude, *options.extend_exclude],
        "warnings": engine.warnings,
    }
    pipe.send(("ready", facts))
    return engine


def restrict_memory() -> None:
    """Make running out of memory an exception here, not a full machine."""
    _, limit = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit > MEMORY:
        with suppress(ValueError):  # macOS has no such limit
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limit))


def serve(pipe: Connection, engine: "Engine", limit: float) -> None:
    """Judge one source; the timers kill the process when time is up."""
    source = pipe.recv()
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, CLOCK * limit)
    verdict = engine.check(*source)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    pipe.send(verdict)


if __name__ == "__main__":
    main(int(sys.argv[1]))
