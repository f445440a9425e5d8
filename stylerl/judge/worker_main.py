"""A judge's worker process: sources in, verdicts out, over one socket.

Started by stylerl.judge.worker_process as `python -I worker_main.py FD`,
never by hand and never by forking: no other library is loaded here, and a
source that crashes flake8, exhausts its memory or never ends takes down this
process alone.  The kernel ends it when a source has had its time (SIGPROF for
CPU seconds, SIGALRM for seconds of the clock), and it exits by itself when
the other end of the socket closes.

Messages are marshalled tuples, one a frame of multiprocessing's Connection:

1. in:  (sys.path, the fields of JudgeConfig, seconds for a source)
2. out: ("ready", what flake8 made of them) or ("refused", why)
3. in:  (source, path, rows to judge or None), any number of times, each
   answered in turn by
   out: (violations, parsed, reason)
"""

import gc
import marshal
import resource
import signal
import sys
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

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
        path, fields, limit = marshal.loads(pipe.recv_bytes())
        sys.path[:] = path
        engine = start(pipe, fields)
        if engine is not None:
            gc.freeze()  # flake8 itself is no garbage
            gc.set_threshold(GARBAGE)
            # Out of memory is an exception here, not a full machine.
            with suppress(ValueError):  # macOS has no such limit
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
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
        pipe.send_bytes(marshal.dumps(("refused", str(error))))
        return None
    options = engine.options
    facts = {
        "filename": list(options.filename),
        "exclude": [*options.exclude, *options.extend_exclude],
        "width": options.max_line_length,
    }
    pipe.send_bytes(marshal.dumps(("ready", facts)))
    return engine


def serve(pipe: Connection, engine: "Engine", limit: float) -> None:
    """Judge one source; the timers kill the process when time is up."""
    from stylerl.judge.verdict import Extent

    source, path, rows = marshal.loads(pipe.recv_bytes())
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, CLOCK * limit)
    verdict = engine.check(source, path, rows and Extent(*rows))
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer: Any = [tuple(violation) for violation in verdict.violations]
    pipe.send_bytes(marshal.dumps((answer, verdict.parsed, verdict.reason)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
