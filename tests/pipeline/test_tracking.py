"""MLflow tracking: what a run holds, and that losing it costs nothing."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from conftest import run_python

from stylerl import storage
from stylerl.errors import DataError
from stylerl.pipeline import (
    registry,
    stage_runs,
    store,
    tracking,
)
from stylerl.pipeline.server import free_port

STORE = "sqlite:///{}/mlflow.db"
NO_STORE = "cannot be used, and is asked no more"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture(autouse=True)
def folder(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder, over one store for the module (it takes seconds)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", STORE.format(database))
    monkeypatch.delenv(stage_runs.PARENT, raising=False)
    monkeypatch.delenv(stage_runs.KEY, raising=False)
    pipeline(tmp_path)
    yield tmp_path


def pipeline(folder: Path) -> None:
    """A stage `sft`, with a data input and a code input; and `evaluate`."""
    (folder / "dvc.yaml").write_text(
        "stages:\n  sft:\n    cmd: python -m tasks.sft\n"
        "    deps: [a.py, labels]\n    params: [seed]\n    outs: [model]\n"
        "    metrics: [metrics/sft.json]\n"
        "  evaluate: {cmd: python -m tasks.evaluate}\n"
    )
    (folder / "params.yaml").write_text("seed: 3\n")
    (folder / "a.py").write_text("x = 1\n")
    storage.write_json(folder / "metrics/sft.json", {"loss": 1.0})
    (folder / "labels.dvc").write_text("outs: [{path: labels, md5: '12'}]")


def test_a_stage_run_holds_everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"sft": {"lr": 0.5}, "seed": 3}
    with stage_runs.flow_run("flow", given) as parent:
        monkeypatch.setenv(stage_runs.PARENT, parent.id)
        with stage_runs.stage_run("sft", {"lr": 0.5, "texts": ["a"]}) as run:
            run.log_metrics({"loss": 2.0}, step=1)
            run.log_metrics({"loss": 1.0, "by": {"E501": 4}}, step=2)
            run.log_metrics({"undefined": None, "why_not": "no sandbox"})
            run.log_models({"sft": {"joint": 0.25}, "ppo": {"joint": 0.5}})
            run.log_table("t.json", pd.DataFrame({"text": ["def f():"]}))
            (folder / "curve.csv").write_text("1,2")
            run.log_file(folder / "curve.csv")
            run.log_tags({"judge": "0123"})
    client = tracking.connect()
    stage = client.get_run(run.id)
    assert stage.info.status == "FINISHED"
    assert stage.info.run_name == "sft"
    assert stage.data.params == {"lr": "0.5", "texts": "['a']"}
    assert stage.data.metrics["loss"] == 1.0
    assert stage.data.metrics["by.E501"] == 4.0
    assert not {"undefined", "why_not"} & stage.data.metrics.keys()
    assert stage.data.metrics["peak_memory_gib"] > 0.01
    history = client.get_metric_history(run.id, "loss")
    assert [(m.step, m.value) for m in history] == [(1, 2.0), (2, 1.0)]
    tags = stage.data.tags
    assert tags["mlflow.parentRunId"] == parent.id
    assert tags["stage"] == "sft" and tags["judge"] == "0123"
    assert tags["version.torch"] and tags["machine.cpu"]
    # data is named with its digest; code is in the stage key and the commit
    inputs = [i.dataset for i in stage.inputs.dataset_inputs]
    assert [(i.name, i.digest) for i in inputs] == [("labels", "12")]
    artifacts = {f.path for f in client.list_artifacts(run.id)}
    assert {"t.json", "curve.csv", "sft.json"} <= artifacts
    table = client.download_artifacts(run.id, "t.json")
    assert json.loads(Path(table).read_text())["data"] == [["def f():"]]
    assert client.get_run(parent.id).data.params["sft.lr"] == "0.5"
    models = client.search_logged_models([tracking.experiment(client)])
    scores = {m.name: {s.key: s.value for s in m.metrics} for m in models}
    assert scores == {"sft": {"joint": 0.25}, "ppo": {"joint": 0.5}}
    assert {(m.status, m.source_run_id) for m in models} == {("READY", run.id)}


def test_seconds_are_of_an_execution() -> None:
    """The last: a run of 2 s, then one of 5 s."""
    for seconds in (2, 5):
        with stage_runs.stage_run("sft", {}) as run:
            began = run.client.get_run(run.id).info.start_time
            ended = began + 1000 * seconds
            run.client.set_terminated(run.id, end_time=ended)
            run.client = None
    assert stage_runs.seconds_by_stage() == {"sft": 5.0}


def test_runs_are_found_by_their_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage_runs.stage_run("sft", {}) as first:
        pass
    key = tracking.connect().get_run(first.id).data.tags["stage_key"]
    assert len(key) == 64
    with pytest.raises(ValueError), stage_runs.stage_run("sft", {}):
        raise ValueError("bad")
    # the failed run has the same key, and does not count
    assert stage_runs.stage_run_id(key) == first.id
    (folder / "params.yaml").write_text("seed: 4\n")
    with stage_runs.stage_run("sft", {}) as other:
        pass
    assert stage_runs.stage_run_id(key) == first.id
    assert other.id != first.id
    # a key handed down by the flow is taken as it is
    monkeypatch.setenv(stage_runs.KEY, "ab" * 32)
    with stage_runs.stage_run("sft", {}) as handed:
        pass
    assert stage_runs.stage_run_id("ab" * 32) == handed.id


def test_a_copy_that_dvc_drops_logs_to_the_checkout(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tracking.store() == f"sqlite:///{folder}/mlflow/mlflow.db"
    copy = folder / ".dvc/tmp/exps/tmp1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("DVC_ROOT", str(folder))
    assert store.folder() == copy / "mlflow"  # DVC_ROOT alone says nothing
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "b6a1157")
    assert store.store() == f"sqlite:///{folder}/mlflow/mlflow.db"
    assert not (copy / "mlflow").exists()


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("bad"), "FAILED"), (KeyboardInterrupt(), "KILLED")],
)
def test_status_of_a_run_that_ends_badly(
    error: BaseException, status: str
) -> None:
    with pytest.raises(type(error)), stage_runs.stage_run("sft", {}) as run:
        raise error
    ended = tracking.connect().get_run(run.id)
    assert ended.info.status == status
    assert ended.data.tags["error"].startswith(type(error).__name__)


def test_end_children_marks_what_was_killed() -> None:
    with stage_runs.flow_run("flow", {}) as parent:
        orphan = tracking.Run("sft", {"mlflow.parentRunId": parent.id})
        stage_runs.end_children(parent.id)
    status = tracking.connect().get_run(orphan.id).info.status
    assert status == "KILLED"


def hang(listener: socket.socket) -> str:
    """The address of a server that takes calls and answers none."""
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


SILENT = [
    *("http://127.0.0.1:9", "https://127.0.0.1:9/mlflow", "hangs"),
    *("http://user:word@127.0.0.1:9", "http://a.invalid:5000"),
]
NO_ADDRESS = [
    *("garbage", "file:///tmp/x", "databricks-uc"),
    *("http://[::1", "http://127.0.0.1:x"),
]


@pytest.mark.parametrize("uri", [*SILENT, *NO_ADDRESS])
def test_a_store_that_cannot_be_reached_is_asked_once(
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as listener:
        uri = hang(listener) if uri == "hangs" else uri
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        shown = " ".join(uri.replace("user:word@", "").split())
        ask_what_cannot_be_used(capsys, f"{shown} {NO_STORE}")
        assert registry.register(None, "policy", "m1", {}) is None
        assert capsys.readouterr().err == ""
    assert os.environ[store.GONE] == uri


def newer(file: Path) -> None:
    """A store that a later MLflow has brought to its schema."""
    shutil.copy(tracking.store().removeprefix("sqlite:///"), file)
    with closing(sqlite3.connect(file)) as made:
        made.execute("UPDATE alembic_version SET version_num = 'later'")
        made.commit()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: file.write_text("no store" * 99), "not a database"),
        (newer, "found version later, but expected"),
    ],
)
def test_what_is_no_store_is_said_once(
    folder: Path,
    make: Callable[[Path], object],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with stage_runs.flow_run("before", {}):
        pass  # the store that one of these is made of
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 1)  # not 10
    file = folder / "damaged.db"
    make(file)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{file}")
    capsys.readouterr()
    ask_what_cannot_be_used(capsys, f"{tracking.store()} {NO_STORE}", message)


def ask_what_cannot_be_used(
    capsys: pytest.CaptureFixture[str], *words: str
) -> None:
    """What a run asks of a store that cannot be used is said in one line."""
    store.best_effort(tracking.connect)
    with stage_runs.flow_run("flow", {"a": 1}) as run:
        with stage_runs.stage_run("sft", {"lr": 1}) as child:
            child.log_metrics({"loss": 1.0})
        run.log_tags({"a": "b"})
    assert run.id == child.id == ""
    assert stage_runs.stage_run_id("ab" * 32) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "MLflow: not logged: " in said
    assert [each for each in words if each not in said] == []


def test_a_store_that_does_not_answer_has_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the gate says of the champion's run shows no password."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:word@127.0.0.1:9")
    with pytest.raises(DataError, match=r"in http://127.0.0.1:9; it has"):
        tracking.completions("brave-newt")


def test_a_stage_is_told_that_the_store_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv(store.GONE, "http://127.0.0.1:9")
    code = (
        "from stylerl.pipeline import stage_runs; "
        "stage_runs.stage_run_id('ab')"
    )
    asked = run_python(code, env=os.environ)
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_is_left_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Stopped, it takes calls and answers none; killed, it takes none."""
    port = str(free_port())
    monkeypatch.setenv("PORT", port)
    script = Path(tracking.__file__).parents[2] / "mlflow/server.sh"
    uri = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        ["bash", str(script)],
        start_new_session=True,
        env={**os.environ, "STORE": str(tmp_path)},
    )
    try:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        while not store.best_effort(tracking.connect):
            assert server.poll() is None
            monkeypatch.delenv(store.GONE)
            time.sleep(0.2)
        capsys.readouterr()
        with stage_runs.flow_run("flow", {"a": 1}) as run:
            assert run.id
            os.killpg(server.pid, signal.SIGSTOP)
            for step in range(100):
                run.log_metrics({"loss": 1.0}, step)
            assert stage_runs.stage_run_id("ab" * 32) is None
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{uri} {NO_STORE}" in said
        monkeypatch.delenv(store.GONE)  # the next run asks it again
        os.killpg(server.pid, signal.SIGCONT)
        with stage_runs.flow_run("flow", {"a": 1}) as run:
            assert run.id
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(30)
            for step in range(100):
                run.log_metrics({"loss": 1.0}, step)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(30)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{uri} {NO_STORE}" in said


def test_a_store_on_a_full_disk_is_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """SQLite's words, as MLflow wraps them, without its own traceback."""
    with stage_runs.flow_run("flow", {"a": 1}) as run:
        # the database may not grow: what a full disk says
        import sqlalchemy
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        sqlite = run.client._tracking_client.store
        assert isinstance(sqlite, SqlAlchemyStore)

        @sqlalchemy.event.listens_for(sqlite.engine, "connect")
        def limit(connection, record):  # type: ignore[no-untyped-def]
            connection.execute("PRAGMA max_page_count = 1")

        sqlite.engine.dispose()
        capfd.readouterr()
        for step in range(2000):
            run.log_metrics({"loss": 1.0}, step)
            if run.client is None:
                break
        sqlalchemy.event.remove(sqlite.engine, "connect", limit)
        sqlite.engine.dispose()
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "MLflow: not logged: " in said
    assert "database or disk is full" in said


def test_completions_are_found_by_id(
    capfd: pytest.CaptureFixture[str],
) -> None:
    table = pd.DataFrame({"model": ["ppo"]})
    table.attrs = {"judge": "0123"}
    storage.write_table(Path(tracking.COMPLETIONS), table)
    with stage_runs.stage_run("evaluate", {}) as stage:
        stage.log_file(Path(tracking.COMPLETIONS))
    found = tracking.completions(stage.id)
    assert found.attrs == table.attrs and found.equals(table)
    assert "Downloading" not in capfd.readouterr().err  # no bar a file


def test_a_run_that_left_no_table() -> None:
    with stage_runs.flow_run("empty", {}) as empty:
        pass
    for run in ("it's no run", "ab" * 16, empty.id):
        with pytest.raises(DataError, match=f"run {run} must have left"):
            tracking.completions(run)
