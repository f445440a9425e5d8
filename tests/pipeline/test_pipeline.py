"""DVC, Prefect and MLflow agree, whatever happens to the workspace.

The scenarios run on five tiny stages, but on a real DVC repository, a real
Prefect server and a real MLflow store.  A tiny stage appends its name to
`executed` each time that it runs, and obeys what `orders/STAGE` asks for.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import alive, dvc, git, wait_for, write_params
from prefect.artifacts import Artifact
from prefect.events.clients import AssertingPassthroughEventsClient
from prefect.events.schemas.events import Event
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL
from prefect.testing.utilities import prefect_test_harness

from flows.rlhf import rlhf
from stylerl import config
from stylerl.errors import (
    ConfigError,
    DataError,
    ModelError,
    StylerlError,
)
from stylerl.judge import Judge
from stylerl.pipeline import graph, tracking, workspace
from stylerl.pipeline import stage_task as stages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parent.parent.parent
NO_STORE = "http://127.0.0.1:9"  # refused before MLflow is imported
STAGES = ["base", "filter", "sft", "ppo", "evaluate"]

STAGE_SCRIPT = """
import hashlib, json, os, signal, sys, time
from pathlib import Path

import pandas as pd

from stylerl import config, storage
from stylerl.errors import DataError
from stylerl.pipeline import process, stage_runs
from stylerl.evaluation import display

NAME = sys.argv[1]
READS = {"filter": ["data"], "base": [],
         "sft": ["artifacts/filter", config.load().sft.base],
         "ppo": ["artifacts/sft"], "evaluate": ["artifacts/ppo"]}


def obey():
    orders = Path("orders", NAME)
    if not orders.exists():
        return
    order, *rest = orders.read_text().split("\\n")
    orders.write_text("\\n".join(rest))
    if order == "sleep":
        Path("sleeping").write_text(str(os.getpid()))
        time.sleep(float(os.environ.get("SLEEP", "60")))
    elif order == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif order == "network":
        raise ConnectionResetError("the hub went away")
    elif order == "wrong":
        raise DataError("every snippet must have a body; got none")


def main():
    with Path("executed").open("a") as log:
        log.write(NAME + "\\n")
    params = config.load()
    with stage_runs.stage_run(NAME, {"kl_coef": params.ppo.kl_coef}) as run:
        obey()
        digest = hashlib.sha256()
        for folder in READS[NAME]:
            for file in sorted(Path(folder).rglob("*")):
                digest.update(file.read_bytes())
        text = digest.hexdigest()
        if NAME == "ppo":
            text = f"{text} {params.ppo.kl_coef}"
        out = Path("artifacts", NAME)
        out.mkdir(parents=True)
        (out / "model").write_text(text)
        run.log_metrics({"loss": 0.5}, step=1)
        if NAME == "evaluate":
            evaluate(run)


def evaluate(run):
    scores = {metric.key: 0.5 for metric in display.TABLE}
    gain = {key + end: 0.1 * (key == "compliance")
            for key in scores for end in ("", "_low", "_high")}
    metrics = {"base": scores, "sft": scores, "ppo": scores, "gain": gain,
               "size": {"prompts": 2, "samples": 1}}
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics/evaluate.json").write_text(json.dumps(metrics))
    Path("artifacts/report").mkdir()
    Path("artifacts/report/report.html").write_text(
        "<p>report</p>")
    table = pd.DataFrame({"model": ["ppo"]})
    table.attrs = {"judge": "0123", "split": "test"}
    storage.write_table(Path("artifacts/evaluate/completions.parquet"), table)
    run.log_file(Path("artifacts/evaluate/completions.parquet"))


if __name__ == "__main__":
    process.run_main(main)
"""


# As `dvc config` writes it, which takes a second.
DVC_CONFIG = """
[core]
    analytics = false
"""


def declared() -> str:
    """The dvc.yaml of the tiny pipeline."""

    def stage(name: str, deps: list[str], **more: object) -> object:
        return {
            "cmd": f"python stage.py {name}",
            "deps": ["stage.py", *deps],
            "outs": [{f"artifacts/{name}": {"push": False}}],
            **more,
        }

    content = {
        "stages": {
            "base": stage("base", []),
            "filter": stage("filter", ["data"]),
            "sft": stage(
                "sft",
                ["artifacts/filter", "${sft.base}"],
                params=["sft", "seed"],
            ),
            "ppo": stage("ppo", ["artifacts/sft"], params=["ppo"]),
            "evaluate": stage(
                "evaluate",
                ["artifacts/ppo"],
                outs=["artifacts/evaluate", "artifacts/report"],
                metrics=[{"metrics/evaluate.json": {"cache": False}}],
            ),
        }
    }
    return yaml.safe_dump(content, sort_keys=False)


def new_workspace(folder: Path) -> None:
    """A repository with data and parameters."""
    (folder / "data").mkdir(parents=True)
    (folder / "data/corpus").write_text("raw code")
    (folder / "orders").mkdir()
    (folder / "stage.py").write_text(STAGE_SCRIPT)
    (folder / "preferences.jsonl").touch()
    write_params(folder=folder)
    (folder / "dvc.yaml").write_text(declared())
    os.chdir(folder)
    git("init", "-q", ".")
    dvc("init", "-q")
    Path(".dvc/config").write_text(DVC_CONFIG)
    dvc("add", "-q", "data")
    with Path("data.dvc").open("a") as file:
        file.write("  push: false\n")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[pytest.MonkeyPatch]:
    """A Prefect server and an MLflow store for the whole module."""
    folder = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch, prefect_test_harness(300):
        # sends what it keeps: the server learns of task runs by events
        EventsWorker.set_client_override(AssertingPassthroughEventsClient)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        patch.setenv("PATH", path)
        patch.setenv("PYTHONPATH", str(ROOT))  # where flows/ is
        patch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
        patch.setenv("PREFECT_HOME", str(folder / "prefect"))
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        yield patch
        EventsWorker.set_client_override(None)


class Lines(logging.Handler):
    """What the log says of stages that begin."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (line := record.getMessage()).startswith("stage "):
            self.said.append(line)


@pytest.fixture(scope="module")
def log() -> Iterator[list[str]]:
    """A line for each stage that a flow of this module begins."""
    logger, lines = logging.getLogger("prefect.flow_runs"), Lines()
    logger.addHandler(lines)
    yield lines.said
    logger.removeHandler(lines)


@pytest.fixture(scope="module")
def after_first_run(
    server: pytest.MonkeyPatch,
    log: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """A workspace in which the flow has run once."""
    folder = tmp_path_factory.mktemp("first") / "workspace"
    server.chdir(tmp_path_factory.getbasetemp())
    new_workspace(folder)
    rlhf()
    yield folder


@pytest.fixture
def folder(
    after_first_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of that workspace, as the current directory."""
    shutil.copytree(after_first_run.parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path / "workspace")
    Path("executed").unlink()
    return tmp_path / "workspace"


def executed() -> list[str]:
    """The stages that ran, in order, since the copy was made."""
    log = Path("executed")
    return log.read_text().split() if log.exists() else []


def run(**parameters: object) -> dict[str, str]:
    """Run the flow; the state of each stage, off the parent MLflow run."""
    rlhf(**parameters)  # type: ignore[arg-type]
    tags = latest_parent().data.tags
    return {name: tags[f"state.{name}"] for name in STAGES}


def runs_with(tag: str):  # type: ignore[no-untyped-def]
    """The MLflow runs with a tag, the latest first."""
    client = tracking.connect()
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    return client.search_runs([experiment.experiment_id], f"tags.{tag}")


def latest_parent():  # type: ignore[no-untyped-def]
    return runs_with("flow = 'rlhf'")[0]


def policy() -> str:
    return Path("artifacts/ppo/model").read_text()


CACHED = dict.fromkeys(STAGES, "Cached")


def test_first_run(after_first_run: Path, log: list[str]) -> None:
    os.chdir(after_first_run)
    assert log[:5] == [f"stage {i + 1} of 5: {STAGES[i]}" for i in range(5)]
    assert executed() == STAGES
    assert "up to date" in dvc("status")
    parent = latest_parent()
    for score in ("base", "before", "after"):
        assert parent.data.metrics[f"{score}/compliance"] == 0.5
    assert parent.data.metrics["gain/compliance_low"] == 0.1
    assert parent.data.params["ppo.kl_coef"] == "0.05"
    child = tracking.connect().get_run(parent.data.tags["run.ppo"])
    key = graph.stage_key(graph.find_stage("ppo"))
    assert child.data.tags["stage_key"] == key
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    for made, read in ((parent, "data"), (child, "artifacts/sft")):
        inputs = [i.dataset.name for i in made.inputs.dataset_inputs]
        assert inputs == [read]
    versions = tracking.connect().search_model_versions("name = 'stylerl'")
    digest = graph.outputs("ppo")["artifacts/ppo"]
    assert [v.tags["digest"] for v in versions] == [digest]
    judge = Judge(config.load().judge).identity
    assert versions[0].tags["judge"] == parent.data.tags["judge"] == judge
    data = yaml.safe_load(Path("data.dvc").read_text())["outs"][0]["md5"]
    assert versions[0].tags["data"] == data
    # a gain of 0.1, its interval from 0.1 to 0.1, and no guard fallen
    assert parent.data.tags["promotion"].startswith("champion: gain over SFT")
    assert versions[0].tags["evaluation"] == parent.data.tags["run.evaluate"]
    model = tracking.connect().get_registered_model("stylerl")
    assert str(model.aliases["champion"]) == str(versions[0].version)
    artifact = Artifact.get("before-after")
    assert artifact is not None
    assert "| compliance % |" in artifact.data


def events(name: str) -> list[Event]:
    """Those that were sent under a name, once there are any."""

    def sent() -> list[Event]:
        clients = AssertingPassthroughEventsClient.all
        every = [event for client in clients for event in client.events]
        return [event for event in every if event.event == name]

    wait_for(lambda: bool(sent()), 60)
    return sent()


def test_stages_materialise_assets(after_first_run: Path) -> None:
    """Of what, and by whom: edges of Prefect's own graph."""
    os.chdir(after_first_run)
    found = {
        event.resource.id: event
        for event in reversed(
            events("prefect.asset.materialization.succeeded")
        )  # of the first run: other tests change the policy
    }
    start = "dvc://stylerl/"
    paths = {"artifacts/filter", "artifacts/base", "artifacts/sft",
             "artifacts/ppo", "artifacts/evaluate", "artifacts/report",
             "metrics/evaluate.json"}  # fmt: skip
    assert {key.removeprefix(start) for key in found} >= paths
    for made, read in (
        ("artifacts/filter", ["data"]),
        ("artifacts/sft", ["artifacts/base", "artifacts/filter"]),
        ("artifacts/evaluate", ["artifacts/ppo"]),
    ):
        related = found[start + made].related
        assets = [each.id for each in related if each.role == "asset"]
        assert sorted(assets) == [start + path for path in read]
        assert "dvc" in [each.id for each in related]
    facts = found[start + "artifacts/ppo"].payload
    assert facts["md5"] == graph.outputs("ppo")["artifacts/ppo"]
    assert facts["stage_key"] == graph.stage_key(graph.find_stage("ppo"))
    assert tracking.connect().get_run(facts["mlflow_run"])


def test_again_is_all_cached(folder: Path, log: list[str]) -> None:
    first = latest_parent().data.tags["run.sft"]
    assert run() == CACHED
    assert executed() == []
    assert log[-3] == "stage 3 of 5: sft"
    assert latest_parent().data.tags["run.sft"] == first
    assert len(tracking.connect().search_model_versions()) == 1


def test_there_and_back_by_parameter_and_by_git(folder: Path) -> None:
    """What earlier parameters made, or an earlier commit's, is restored, and
    so is the later one's."""
    tracked = ("params.yaml", "dvc.yaml", "dvc.lock", "data.dvc", "metrics")
    git("add", *tracked)
    git("commit", "-q", "-m", "one")
    one = policy()
    states = run(params={"ppo.kl_coef": 0.1})
    assert executed() == ["ppo", "evaluate"]
    assert states["sft"] == "Cached" and states["ppo"] == "Completed"
    assert policy().endswith(" 0.1")
    assert config.load().ppo.kl_coef == 0.1
    assert "up to date" in dvc("repro")
    git("commit", "-q", "-a", "-m", "two")
    two = policy()
    run(params={"ppo.kl_coef": 0.05})
    assert executed() == ["ppo", "evaluate"]  # restored, not run
    assert policy() == one
    assert run() == CACHED
    for revision, expected in (("HEAD", two), ("HEAD~1", one)):
        git("checkout", "-q", "--force", revision)
        run()
        assert executed() == ["ppo", "evaluate"]  # of the second commit
        assert policy() == expected
        assert "up to date" in dvc("status")


def test_outputs_deleted_or_tampered_with_are_restored(folder: Path) -> None:
    model, base = Path("artifacts/ppo/model"), Path("artifacts/base/model")
    before = model.read_text(), base.read_text()
    shutil.rmtree("artifacts")
    run()
    assert (model.read_text(), base.read_text()) == before
    model.write_text("tampered")
    base.write_text("tampered")
    run()
    assert (model.read_text(), base.read_text()) == before
    assert executed() == []
    assert run() == CACHED


def test_a_second_clone_pulls_and_trains_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe of docs/howto/share.md."""
    before = policy()
    page = (ROOT / "docs/howto/share.md").read_text()
    (sed,) = re.findall(r"^sed -i [^#\n]*", page, re.MULTILINE)
    subprocess.run(sed, shell=True, check=True)
    dvc("remote", "add", "-d", "team", str(tmp_path / "team"))
    assert re.search(r"[1-9]\d* files? pushed", dvc("push"))
    shutil.rmtree("orders")
    second = tmp_path / "second"
    git("add", "-A")
    git("commit", "-q", "-m", "a run")
    git("clone", "-q", ".", str(second))
    monkeypatch.chdir(second)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{second}/mlflow.db")
    dvc("pull")
    assert Path("data/corpus").read_text() == "raw code"
    assert run() == CACHED
    assert executed() == []
    assert policy() == before
    # no run of this store measured it, so that none is champion
    assert "run.evaluate" not in latest_parent().data.tags
    (version,) = tracking.connect().search_model_versions()
    assert version.aliases == []


def test_data_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", NO_STORE)
    Path("data/corpus").write_text("other code")
    rlhf()
    # the base reads no data
    assert executed() == ["filter", "sft", "ppo", "evaluate"]
    assert "up to date" in dvc("status")


def test_transient_failure_is_retried(folder: Path) -> None:
    Path("orders/ppo").write_text("killed\nnetwork")
    run(params={"ppo.kl_coef": 0.3})
    assert executed() == ["ppo", "ppo", "ppo", "evaluate"]
    parent = latest_parent().info.run_id
    children = runs_with(f"mlflow.parentRunId = '{parent}'")
    ended = sorted(child.info.status for child in children)
    assert ended == ["FAILED", "FINISHED", "FINISHED", "KILLED"]


def test_permanent_failure_is_not_retried(folder: Path) -> None:
    Path("orders/ppo").write_text("wrong\nwrong")
    with pytest.raises(stages.StageFailure) as caught:
        rlhf(params={"ppo.kl_coef": 0.3})
    assert str(caught.value) == (
        "stage ppo failed: DataError: every snippet must have a body; got none"
    )
    assert executed() == ["ppo"]
    assert latest_parent().info.status == "FAILED"


def test_what_is_wrong_or_nowhere_stops_the_flow_at_once(folder: Path) -> None:
    before = Path("params.yaml").read_text()
    with pytest.raises(ConfigError, match="ppo.kl_coef"):
        rlhf(params={"ppo.kl_coef": -1})
    assert Path("params.yaml").read_text() == before
    for changes, error, words in (
        ({"judge.config": "no-such-file"}, StylerlError, "no-such-file"),
        ({"sft.base": "models/mine"}, ModelError, "mine has no config.json"),
        ({"sft.base": "artifacts/a"}, ModelError, "a has no config.json"),
    ):
        with pytest.raises(error, match=words):
            rlhf(params=changes)
        Path("params.yaml").write_text(before)  # the user takes it back
    shutil.rmtree("data")
    with pytest.raises(DataError, match="`stylerl collect` builds it"):
        rlhf()
    assert executed() == []


def test_a_base_of_ones_own(folder: Path) -> None:
    """Its bytes count, and no other base is made for it."""
    mine = Path("models/mine")
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    shutil.rmtree("artifacts/base")
    (mine / "model").write_text("weights")
    rlhf(params={"sft.base": str(mine)})
    assert executed() == ["sft", "ppo", "evaluate"]
    tags = latest_parent().data.tags
    assert "state.base" not in tags
    assert tags["state.filter"] == "Cached"
    (mine / "model").write_text("weighty")
    assert "sft" in dvc("status")


def start_sleeping(stage: str, command: list[str]) -> subprocess.Popen[bytes]:
    """A process of its own in which `stage` has begun, and sleeps."""
    Path("orders", stage).write_text("sleep")
    process = subprocess.Popen(command)
    wait_for(lambda: Path("sleeping").exists())
    return process


def flow_command(kl_coef: float) -> list[str]:
    changes = {"ppo.kl_coef": kl_coef}
    # A shell that starts a job in the background has it ignore SIGINT, and
    # so would we.
    heed = "import signal as s; s.signal(s.SIGINT, s.default_int_handler)"
    return process_of(f"flows.rlhf.rlhf(params={changes})", heed)


def process_of(call: str, before: str = "") -> list[str]:
    """A command that calls a flow, imported as `stylerl run` imports it."""
    code = f"""{before}
from stylerl.pipeline import process
with process.importing():
    import flows.rlhf
{call}"""
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]
)
def test_no_orphan_when_the_flow_ends(
    folder: Path, sign: signal.Signals
) -> None:
    process = start_sleeping("ppo", flow_command(0.4))
    stage = int(Path("sleeping").read_text())
    if sign is signal.SIGTERM:  # a second flow is refused, and harms none
        with pytest.raises(StylerlError, match="another does"):
            rlhf(params={"ppo.kl_coef": 0.6})
        assert config.load().ppo.kl_coef == 0.4
    assert alive(stage)
    process.send_signal(sign)
    process.wait(60)
    wait_for(lambda: not alive(stage), 20)
    # and the workspace is free again: no lock outlives its owner
    with workspace.exclusive():
        assert executed() == ["ppo"]
    if sign is signal.SIGKILL:
        run(params={"ppo.kl_coef": 0.4})
        assert executed() == ["ppo", "ppo", "evaluate"]


def test_dvc_repro_by_hand_during_a_flow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEEP", "4")
    write_params({"ppo.kl_coef": 0.7})
    by_hand = [sys.executable, "-m", "dvc", "repro"]
    process = start_sleeping("ppo", by_hand)
    run()
    assert process.wait(120) == 0
    assert executed() == ["ppo", "evaluate"]
    assert policy().endswith(" 0.7")
    made = tracking.connect().get_run(latest_parent().data.tags["run.ppo"])
    assert "mlflow.parentRunId" not in made.data.tags
    assert made.data.params["kl_coef"] == "0.7"


def test_a_worker_of_a_work_pool_runs_the_flow(
    folder: Path, server: pytest.MonkeyPatch
) -> None:
    """The recipe of docs/howto/share.md."""

    def prefect(*arguments: str) -> None:
        command = [sys.executable, "-m", "prefect", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    shutil.copytree(ROOT / "flows", "flows")
    shutil.copy(ROOT / "prefect.yaml", folder)
    changes = '{"ppo.kl_coef": 0.45}'
    asked = ("-p", "preset=null", "-p", f"params={changes}")
    prefect("work-pool", "create", "stylerl", "--type", "process")
    prefect("--no-prompt", "deploy", "--all")
    try:
        prefect("deployment", "run", "rlhf/smoke", *asked)
        once = ("--pool", "stylerl", "--limit", "1", "--run-once")
        prefect("worker", "start", *once)
    finally:
        prefect("--no-prompt", "deployment", "delete", "--all")
    assert executed() == ["ppo", "evaluate"]
    assert policy().endswith(" 0.45")
    tags = latest_parent().data.tags
    assert tags["state.sft"] == "Cached" and tags["run.ppo"]
