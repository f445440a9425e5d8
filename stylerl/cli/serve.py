"""`stylerl serve`: the deployments rlhf/full and rlhf/smoke.

Starts a Prefect server on 127.0.0.1:4200 where none answers, then waits for
runs.  From another shell, in the same folder:

    prefect deployment run rlhf/full --watch
    prefect deployment run rlhf/full -p preset=gpu
    prefect deployment run rlhf/full -p 'params={"ppo.kl_coef": 0.1}'

Ctrl-C ends the runs, the deployments and the server.  A server on which
the deployments belong to a work pool (prefect.yaml) is left as it is.
"""

import os
import signal
import sys

from stylerl.errors import StylerlError, require
from stylerl.pipeline import server as api
from stylerl.pipeline import workspace

DEPLOYMENTS = {"full": "default", "smoke": "smoke"}  # and their presets


def run() -> None:
    """Serve until interrupted.

    Raises:
        MissingExtra: the packages of the pipeline are not installed.
        DiskError: the checkout cannot be written.
        StylerlError: the server does not start, or a work pool has one of
            the deployments.
    """
    require("pipeline", *workspace.TOOLS)
    workspace.check_writable(api.home())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("PREFECT_RUNNER_POLL_FREQUENCY", "2")
    try:
        with api.server() as wait_for_it:
            wait_for_it()
            _serve()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def _serve() -> None:
    import prefect
    from prefect.deployments.runner import RunnerDeployment

    from flows.rlhf import rlhf

    for name in DEPLOYMENTS:
        refuse_pooled(f"{rlhf.name}/{name}")
    deployments = (
        RunnerDeployment.from_flow(rlhf, name, parameters={"preset": preset})
        for name, preset in DEPLOYMENTS.items()
    )
    prefect.serve(*deployments, limit=1)


def refuse_pooled(name: str) -> None:
    """Raise StylerlError where a work pool has this deployment already.

    Prefect would serve it all the same, and then not find its code.
    """
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            pool = client.read_deployment_by_name(name).work_pool_name
        except ObjectNotFound:
            return
    if pool:
        raise StylerlError(
            f"a deployment may be served only where no work pool has it; "
            f"{name} belongs to {pool} on {api.url()}: start `prefect worker "
            f"start --pool {pool}`, or `prefect deployment delete {name}`"
        )
