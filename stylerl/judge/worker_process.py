"""One process of the judge: start it, send it sources, see how it ended.

Each is a fresh interpreter that runs stylerl/judge/worker_main.py; nothing is
forked, so torch and threads in this process do no harm, and the caller's
script is not imported again, as multiprocessing would do.
"""

import dataclasses
import marshal
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError
from stylerl.judge.plugin_code import module_path
from stylerl.judge.verdict import Source, Verdict, Violation

SCRIPT = Path(__file__).with_name("worker_main.py")
TIMEOUT_CODES = {-signal.SIGPROF, -signal.SIGALRM}

TIME_LIMIT = 10.0  # seconds that flake8 may spend on one source
EXIT_TIMEOUT = 5.0  # seconds for a process to end after its socket


class Worker:
    """One process, which judges one source at a time."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(SCRIPT), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        self.options: dict[str, Any] = {}  # from its greeting

    def greet(self, config: JudgeConfig) -> None:
        """Wait until it has loaded flake8 with a configuration.

        Raises:
            ConfigError: flake8 refuses the configuration.
            EOFError, OSError: the process is dead.
        """
        fields = dataclasses.asdict(config)
        start = (module_path(), fields, TIME_LIMIT)
        self.pipe.send_bytes(marshal.dumps(start))
        status, facts = marshal.loads(self.pipe.recv_bytes())
        if status == "refused":
            self.close()
            raise ConfigError(facts)
        self.options = facts

    def judge(self, source: Source) -> Verdict:
        """The verdict on a source.

        Raises:
            EOFError, OSError: the process is dead.
        """
        content, path, extent = source
        asked = (content, path, extent and tuple(extent))
        self.pipe.send_bytes(marshal.dumps(asked))
        answer, parsed, reason = marshal.loads(self.pipe.recv_bytes())
        violations = tuple(Violation._make(values) for values in answer)
        return Verdict(violations, parsed, reason)

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


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"
