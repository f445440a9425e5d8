"""Serve the deployments rlhf/full and rlhf/smoke: `make serve`.

Starts a Prefect server on 127.0.0.1:4200 where none answers, then waits for
runs.  From another shell, in the same folder:

    prefect deployment run rlhf/full --watch
    prefect deployment run rlhf/full -p preset=gpu
    prefect deployment run rlhf/full -p 'params={"ppo.kl_coef": 0.1}'

Ctrl-C ends the runs, the deployments and the server.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flows import api

STARTUP = 120.0  # seconds a server may take


def main() -> None:
    """Run until interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("PREFECT_RUNNER_POLL_FREQUENCY", "2")
    try:
        with server():
            _serve()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def _serve() -> None:
    import prefect
    from prefect.deployments.runner import RunnerDeployment

    from flows.rlhf import rlhf

    deployments = (
        RunnerDeployment.from_flow(rlhf, name, parameters={"preset": preset})
        for name, preset in (("full", "default"), ("smoke", "smoke"))
    )
    prefect.serve(*deployments, limit=1)


@contextmanager
def server() -> Iterator[None]:
    """A Prefect server for as long as the block runs.

    One that answers already is used, and left running.
    """
    if api.answers():
        yield
        return
    host, port = api.address()
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "tasks.process"),
            *(sys.executable, "-m", "prefect", "server", "start"),
            *("--host", host, "--port", str(port)),
        ],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        print(f"starting Prefect on http://{host}:{port} ...", file=sys.stderr)
        deadline = time.monotonic() + STARTUP
        while not api.answers():
            if child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(
                    f"the Prefect server did not start on {host}:{port}; "
                    "`prefect server start` shows why"
                )
            time.sleep(0.5)
        yield
    finally:
        child.terminate()
        child.wait()


if __name__ == "__main__":
    main()
