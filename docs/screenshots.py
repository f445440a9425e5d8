"""Take docs/*.png of both UIs over this workspace's runs.

    make screenshots        (needs Chromium: apt-get install chromium)

Both servers are started where none answers, and stopped afterwards.  At
least two runs of the flow must have finished, for the compare page.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows import api
from tasks import tracking

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PORT = 5055  # of MLflow, so that a running `make ui` is left alone
MLFLOW = f"http://127.0.0.1:{PORT}"
SETTLE = 20_000  # milliseconds of virtual time a page may take to load
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    f"--virtual-time-budget={SETTLE}",
)


def main() -> None:
    """Take every picture."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        sys.exit("Chromium is needed: apt-get install chromium")
    os.chdir(ROOT)
    with mlflow_ui(), api.server():
        for name, url, height in [*mlflow_pages(), *prefect_pages()]:
            shoot(browser, url, DOCS / f"{name}.png", height)
            print(f"docs/{name}.png  {url}")


def mlflow_pages() -> Iterator[tuple[str, str, int]]:
    """(file, address, height) of the runs, one run and two compared."""
    client = tracking.connect()
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    number = experiment.experiment_id if experiment else "0"
    parents = client.search_runs(
        [number],
        "tags.flow = 'rlhf' and attributes.status = 'FINISHED'",
        max_results=2,
    )
    if len(parents) < 2:
        sys.exit("two finished runs are needed; `stylerl run` makes one")
    runs = [run.info.run_id for run in parents]
    start = f"{MLFLOW}/#/experiments/{number}"
    both = urllib.parse.quote(json.dumps(runs))
    of = urllib.parse.quote(json.dumps([number]))
    yield "mlflow-runs", f"{start}/runs", 800
    yield "mlflow-run", f"{start}/runs/{runs[0]}", 1200
    compare = f"{MLFLOW}/#/compare-runs?runs={both}&experiments={of}"
    yield "mlflow-compare", compare, 1600


def prefect_pages() -> Iterator[tuple[str, str, int]]:
    """(file, address, height) of the last flow run and its artifact."""
    host, port = api.address()
    start = f"http://{host}:{port}"
    query = {
        "limit": 1,
        "sort": "START_TIME_DESC",
        "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}},
    }
    request = urllib.request.Request(
        f"{api.url()}/flow_runs/filter",
        json.dumps(query).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        run = json.load(reply)[0]["id"]
    yield "prefect-run", f"{start}/runs/flow-run/{run}", 1000
    yield "prefect-scores", f"{start}/artifacts/key/before-after", 1000


def shoot(browser: str, url: str, file: Path, height: int) -> None:
    """One picture, 1280 pixels wide, from an empty profile."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *CHROMIUM,
                f"--user-data-dir={profile}",
                f"--window-size=1280,{height}",
                f"--screenshot={file}",
                url,
            ],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )


@contextmanager
def mlflow_ui() -> Iterator[None]:
    """The MLflow UI for as long as the block runs."""
    child = subprocess.Popen(
        [ROOT / "mlflow" / "server.sh"],
        env={**os.environ, "PORT": str(PORT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{MLFLOW}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.5)
        else:
            sys.exit(f"the MLflow UI did not start on port {PORT}")
        yield
    finally:
        child.terminate()
        child.wait()


if __name__ == "__main__":
    main()
