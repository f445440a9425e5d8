"""The champion is a model folder: from a local store, and over HTTP."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from conftest import wait_for
from mlflow.artifacts import download_artifacts

from stylerl.evaluation.promotion import ALREADY, Decision
from stylerl.pipeline import registry, stage_runs, tracking
from stylerl.pipeline.server import free_port

CHAMPION = "models:/stylerl@champion"


def test_the_champion_is_a_copy_of_its_folder(
    llama_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    version = registry.register(None, str(llama_folder), "d1", {})
    registry.promote(version, "run", lambda _: Decision([ALREADY]))
    got = download_artifacts(CHAMPION, tracking_uri=tracking.store())
    assert files(Path(got)) == files(llama_folder)


@pytest.mark.slow
def test_through_a_server_that_keeps_the_files(
    llama_folder, tmp_path, monkeypatch
):
    """A shared MLflow with an artifact proxy: nothing is read from here."""
    monkeypatch.chdir(tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    kept = tmp_path / "elsewhere"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
        *("--host", "127.0.0.1", "--port", str(port), "--serve-artifacts"),
        *("--backend-store-uri", f"sqlite:///{tmp_path}/shared.db"),
        *("--artifacts-destination", kept.as_uri()),
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PATH": path}
    server = subprocess.Popen(
        command, env={**os.environ, **env}, start_new_session=True
    )
    try:
        wait_for(lambda: answers(f"{url}/health", server))
        os.environ["MLFLOW_TRACKING_URI"] = url
        with stage_runs.flow_run("flow", {"a": 1}) as run:
            Path("curve.csv").write_text("1,2")
            run.log_file(Path("curve.csv"))
        version = registry.register(run.id, str(llama_folder), "d1", {})
        registry.promote(version, run.id, lambda _: Decision([ALREADY]))
        got = download_artifacts(CHAMPION, tracking_uri=url)
        assert files(Path(got)) == files(llama_folder)
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    names = {file.name for file in kept.rglob("*")}
    assert {"curve.csv", "model.safetensors"} <= names
    assert not Path("mlflow").exists()


def files(folder):
    """The content of each file by its name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def answers(url, server):
    assert server.poll() is None, "the server died"
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
