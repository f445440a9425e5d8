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
import sys

from flows import api


def main() -> None:
    """Run until interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("PREFECT_RUNNER_POLL_FREQUENCY", "2")
    try:
        with api.server():
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


if __name__ == "__main__":
    main()
