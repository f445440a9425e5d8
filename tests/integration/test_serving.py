"""The champion answers: loaded in this process, and over HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from mlflow import pyfunc

from stylerl.errors import DataError, StylerlError
from stylerl.evaluation.promotion import ALREADY, Decision
from stylerl.lm import models, sampling
from stylerl.pipeline import registry, stage_runs, tracking
from stylerl.pipeline.serving import Policy

CHAMPION = "models:/stylerl@champion"
PROMPTS = ["def add(a, b):\n", "def first(values):"]
PARAMS = {"temperature": 0.5, "max_new_tokens": 12, "seed": 3}


@pytest.fixture(scope="module")
def store(llama_folder, tmp_path_factory):
    """A folder whose MLflow store holds the tiny model as champion."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("serving")
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        version = registry.register(
            None,
            str(llama_folder),
            "d1",
            {},
            {"max_new_tokens": 5},
        )
        registry.promote(version, "run", lambda _: Decision([ALREADY]))
        yield folder


@pytest.fixture(scope="module")
def expected(llama_folder):
    """What the library itself completes."""
    tokenizer = models.load_tokenizer(llama_folder)
    model = models.load_causal_lm(llama_folder, tokenizer=tokenizer)
    bare = ["def add(a, b):", "def first(values):"]
    drawn = sampling.generate(model, tokenizer, bare, **PARAMS)
    return [
        {"completion": text, "finished": done}
        for text, done in zip(drawn.texts, drawn.finished, strict=True)
    ]


def test_the_registered_model_answers_as_the_library_does(store, expected):
    model = pyfunc.load_model(CHAMPION)
    table = pd.DataFrame({"prompt": PROMPTS})
    answers = model.predict(table, params=PARAMS)
    assert answers.to_dict("records") == expected


def test_it_answers_as_it_was_registered_unless_asked(store, llama_folder):
    """At most 5 tokens, each of a character at least."""
    model = pyfunc.load_model(CHAMPION)
    table = pd.DataFrame({"prompt": PROMPTS[:1]})
    by_default = model.predict(table)
    asked = {"max_new_tokens": 5, "temperature": 0.8, "seed": 0}
    folder = Policy(llama_folder)
    pd.testing.assert_frame_equal(by_default, folder.predict(table, asked))
    (text,) = by_default["completion"]
    assert len(text) > 3


def test_the_registered_model_holds_no_pickle(store):
    files = {
        path.name: path
        for path in Path("mlflow/artifacts").rglob("*")
        if path.is_file()
    }
    assert "model.safetensors" in files
    assert "serving.py" in files  # the code goes with it
    assert not any(name.endswith((".pkl", ".pickle", ".pt")) for name in files)


REFUSED = [
    # params, prompts, what is said
    ({"temperature": -0.1}, PROMPTS, "temperature must be at least 0 and"),
    ({"temperature": float("nan")}, PROMPTS, "temperature must be at least 0"),
    ({"max_new_tokens": 0}, PROMPTS, "max_new_tokens at least 1; got 0.8, 0"),
    ({"max_new_tokens": 10**9}, PROMPTS, "1000000000"),
    ({"seed": -1}, PROMPTS, "seed must be from 0 to 4294967295; got -1"),
    ({"seed": 2**40}, PROMPTS, "seed must be from 0"),
    ({}, ["  "], "a prompt must be a text; got '  '"),
    ({}, ["x = 1\n" * 500], "tokens"),
]


# What MLflow would refuse, in words of its own.
OTHER_KINDS = [
    ({"temperature": "x"}, PROMPTS, "temperature must be at least 0.*'x'"),
    ({"temperature": None}, PROMPTS, "temperature must be at least 0.*None"),
    ({"max_new_tokens": 1.5}, PROMPTS, "max_new_tokens at least 1.*1.5"),
    ({"max_new_tokens": True}, PROMPTS, "max_new_tokens at least 1.*True"),
    ({}, ["x" * 2**19, "y" * (2**19 + 1)], "at most 1048576 characters"),
    ({"seed": 1.5}, PROMPTS, "seed must be from 0 to 4294967295; got 1.5"),
]


@pytest.mark.parametrize(
    ("params", "prompts", "said"), [*REFUSED, *OTHER_KINDS]
)
def test_what_no_policy_can_answer_is_refused(
    llama_folder, params, prompts, said
):
    table = pd.DataFrame({"prompt": prompts})
    with pytest.raises(StylerlError, match=said):
        Policy(llama_folder).predict(table, params)


@pytest.mark.parametrize(
    ("table", "params", "said"),
    [
        ({"prompt": ["a"], "promt": ["b"]}, {}, "prompt; got .*'promt'"),
        ({"prompt": [3]}, {}, "a prompt must be a text; got 3"),
        ({"prompt": ["a"]}, {"heat": 1}, "params may hold temp.*; got heat"),
    ],
)
def test_an_unknown_field_is_named(llama_folder, table, params, said):
    with pytest.raises(DataError, match=said):
        Policy(llama_folder).predict(pd.DataFrame(table), params)


@pytest.mark.slow
def test_the_server_answers_over_http(store, expected):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "mlflow", "models", "serve", "-m", CHAMPION),
        *("--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)),
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"MLFLOW_TRACKING_URI": tracking.store(), "PATH": path}
    server = subprocess.Popen(
        command, env={**os.environ, **env}, start_new_session=True
    )
    try:
        wait_for(f"{url}/ping", server)
        answers = ask(
            f"{url}/invocations",
            {"inputs": {"prompt": PROMPTS}, "params": PARAMS},
        )
        for params, prompts, said in REFUSED:
            refusal = refused(
                f"{url}/invocations",
                {"inputs": {"prompt": prompts}, "params": params},
            )
            assert said in refusal
            assert "Traceback" not in refusal and ".py" not in refusal
        question = {"inputs": {"prompt": PROMPTS}, "params": PARAMS}
        with ThreadPoolExecutor(8) as pool:
            at_once = [
                *pool.map(ask, [f"{url}/invocations"] * 8, [question] * 8)
            ]
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    assert answers == {"predictions": expected}
    assert at_once == [answers] * 8


@pytest.mark.slow
def test_through_a_server_that_keeps_the_files(
    llama_folder, expected, tmp_path, monkeypatch
):
    """A shared MLflow with an artifact proxy: nothing is read from here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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
        wait_for(f"{url}/health", server)
        os.environ["MLFLOW_TRACKING_URI"] = url
        with stage_runs.flow_run("flow", {"a": 1}) as run:
            Path("curve.csv").write_text("1,2")
            run.log_file(Path("curve.csv"))
        version = registry.register(run.id, str(llama_folder), "d1", {})
        registry.promote(version, run.id, lambda _: Decision([ALREADY]))
        table = pd.DataFrame({"prompt": PROMPTS})
        answers = pyfunc.load_model(CHAMPION).predict(table, params=PARAMS)
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    assert answers.to_dict("records") == expected
    files = {file.name for file in kept.rglob("*")}
    assert {"curve.csv", "model.safetensors"} <= files
    assert not Path("mlflow").exists()


def wait_for(url, server):
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (OSError, urllib.error.URLError):
            assert server.poll() is None, "the server died"
            assert time.monotonic() < deadline, "no answer in time"
            time.sleep(0.3)


def refused(url, question):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(url, question)
    assert caught.value.code == 400
    return caught.value.read().decode()


def ask(url, question):
    request = urllib.request.Request(
        url,
        json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)
