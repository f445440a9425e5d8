"""Take docs/*.png of both UIs and the report over this workspace's runs.

    make screenshots        (needs Chromium: apt-get install chromium)

Both servers are started where none answers, and stopped afterwards.  At
least two runs of the flow must have finished, for the compare page.  The
report is looked at wide and narrow, light and dark: it may load nothing, and
nothing may stand out at the side.
"""

import base64
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from websockets.sync.connection import Connection

from stylerl.pipeline import server as api
from stylerl.pipeline import tracking
from tools import browser
from tools.browser import tell

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PORT = 5055  # of MLflow, so that a running `make ui` is left alone
MLFLOW = f"http://127.0.0.1:{PORT}"
WIDTH = 1440
SETTLE = 8.0  # seconds a page may take to load
CLICK = """
for (const label of %s) {
  const all = [...document.querySelectorAll('button, [role=button], a, span')];
  const hit = all.find(e => (e.getAttribute('aria-label') || e.textContent)
    .trim() === label);
  if (hit) hit.click();
}
"""


class Page(NamedTuple):
    """One picture: address, height, and what to fold away."""

    name: str
    url: str
    height: int
    clicks: tuple[str, ...] = ()
    width: int = WIDTH
    scheme: str = "light"


def main() -> None:
    """Take every picture."""
    chromium = browser.find()
    if not chromium:
        sys.exit("Chromium is needed: apt-get install chromium")
    os.chdir(ROOT)
    with mlflow_ui(), api.server() as ready, browser.browsing(chromium) as tab:
        ready()
        for page in [*mlflow_pages(), *prefect_pages()]:
            shoot(tab, page)
            print(f"docs/{page.name}.png  {page.url}")
        for page in report_pages():
            shoot(tab, page)
            check(tab, page)
            print(f"docs/{page.name}.png  {page.url}")


def mlflow_pages() -> Iterator[Page]:
    """The runs, the models' scores, one run, and two runs compared."""
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
    home = f"{MLFLOW}/#/experiments/{number}"
    start, kind = f"{home}/runs", "workflowType=machine_learning"
    query = {"runs": json.dumps(runs), "experiments": json.dumps([number])}
    compare = f"{MLFLOW}/#/compare-runs?{urllib.parse.urlencode(query)}"
    yield Page("mlflow-runs", f"{start}?{kind}", 800)
    models = f"{home}/models?{kind}"
    yield Page("mlflow-models", models, 560, width=3200)
    yield Page("mlflow-run", f"{start}/{runs[0]}?{kind}", 1200)
    fold = ("Visualizations", "Run details", "Parameters", "Artifacts")
    yield Page("mlflow-compare", compare, 700, fold)


def prefect_pages() -> Iterator[Page]:
    """The last flow run, its table of scores, and what it materialised."""
    host, port = api.address()
    start = f"http://{host}:{port}"
    run = ask(
        "flow_runs/filter",
        limit=1,
        sort="START_TIME_DESC",
        flow_runs={"state": {"type": {"any_": ["COMPLETED"]}}},
    )
    scores = ask(
        "artifacts/filter",
        limit=1,
        sort="CREATED_DESC",
        artifacts={"key": {"any_": ["before-after"]}},
    )
    yield Page("prefect-run", f"{start}/runs/flow-run/{run}", 1000)
    yield Page("prefect-scores", f"{start}/artifacts/artifact/{scores}", 1000)
    assets = f"{start}/events?events=prefect.asset.materialization.succeeded"
    yield Page("prefect-assets", assets, 1200, width=1100)


def report_pages() -> Iterator[Page]:
    """The last report at both widths, in both colour schemes."""
    url = (ROOT / "artifacts/report/report.html").as_uri()
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            name = f"report-{width}-{scheme}"
            yield Page(name, url, 1600, width=width, scheme=scheme)


def check(tab: Connection, page: Page) -> None:
    """Stop where the page on show loads something or is too wide, or where a
    wide page hides a column of a table."""
    script = """[
        document.documentElement.scrollWidth,
        performance.getEntriesByType('resource').length,
        [...document.querySelectorAll('.scroll')]
            .filter(e => e.scrollWidth > e.clientWidth).length,
    ]"""
    found = tell(
        tab, "Runtime.evaluate", expression=script, returnByValue=True
    )
    width, loaded, cut = found["result"]["value"]
    if width > page.width or loaded or (cut and page.width >= 1280):
        sys.exit(
            f"{page.name}: {width} of {page.width} pixels wide, {loaded} "
            f"things loaded, {cut} tables cut off"
        )


def ask(path: str, **query: Any) -> str:
    """The id of the first thing that a filter of Prefect's API finds."""
    request = urllib.request.Request(
        f"{api.url()}/{path}",
        json.dumps(query).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return str(json.load(reply)[0]["id"])


def shoot(tab: Connection, page: Page) -> None:
    """Open a page, let it settle, click what is in the way, take it."""
    tell(
        tab,
        "Emulation.setDeviceMetricsOverride",
        width=page.width,
        height=page.height,
        deviceScaleFactor=1,
        mobile=False,
    )
    scheme = {"name": "prefers-color-scheme", "value": page.scheme}
    tell(tab, "Emulation.setEmulatedMedia", features=[scheme])
    tell(tab, "Page.navigate", url="about:blank")
    tell(tab, "Page.navigate", url=page.url)
    time.sleep(SETTLE)
    clicks = json.dumps(["Close", *page.clicks])
    tell(tab, "Runtime.evaluate", expression=CLICK % clicks)
    time.sleep(2)
    picture = tell(tab, "Page.captureScreenshot")["data"]
    (DOCS / f"{page.name}.png").write_bytes(base64.b64decode(picture))


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
