"""`stylerl push`: what goes, where to, and with which card."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub.constants
import pandas as pd
import pytest
import torch
from huggingface_hub import HfApi
from test_summary import metrics
from transformers import AutoModelForCausalLM

from stylerl import storage
from stylerl.cli import main as cli
from stylerl.cli import push_command
from stylerl.config import Params, override, paths
from stylerl.errors import ModelError, StylerlError
from stylerl.export import card, hub

IDS = torch.tensor([[1, 40, 50, 60]])
SNIPPETS = pd.DataFrame(
    {
        "split": ["train", "train", "train", "test"],
        "distribution": ["a", "a", "b", "c"],
        "licence": ["MIT", "MIT", "BSD | GPL", "Apache"],
    }
)
ALARMS = [None, "KL explosion", "KL explosion; junk"]
UPDATES = pd.DataFrame({"update": [1, 2, 3], "alarms": ALARMS})


def run_of(role: str) -> card.Run:
    params = override(Params(), {"sft.snippets": 1234, "seed": 7})
    gain = {"compliance": 0.2, "compliance_low": 0.1, "compliance_high": 0.3}
    found = metrics({"compliance": 0.6, "parse_rate": 0.5}, gain)
    learned = 234  # of the 1,234 that are asked for
    return card.Run(
        role, found, UPDATES, "5dc19fe6", SNIPPETS, params, learned
    )


@pytest.mark.parametrize(
    ("heading", "lines"),
    [
        (
            "policy",
            ["fine-tuned on clean code (SFT), then trained with PPO against",
             "with seed 7", "it is PPO."],
        ),
        (
            "Measured",
            ["compliance rose from 40.0% to 60.0%, +20.0 [",
             "| parse rate % | 90.0 | 90.0 | 50.0 |",
             "- parse rate: ",
             "SFT learned 234 compliant functions.",
             "PPO's 3 updates: KL explosion in 2, junk in 1."],
        ),
        ("Judge", ["- E\n- W\n", "max_line_length: 79", "`5dc19fe6`"]),
        # Three snippets of a and b are of the training split: MIT twice.
        (
            "Data and licences",
            ["3 functions of 2 distributions", "| MIT | 2 |",
             "| BSD or GPL | 1 |"],
        ),
        ("Limits", ["correctness is not", "one style guide"]),
    ],
)  # fmt: skip
def test_a_card_says_what_the_run_measured(heading, lines) -> None:
    text = card.render("me/policy", "<|eos|>", run_of("ppo"))
    _, _, tail = text.partition(f"# {heading}\n")
    section = tail.partition("\n## ")[0]
    section = section if heading != "policy" else text
    assert [line for line in lines if line not in section] == []


def test_a_model_of_no_run_has_no_scores() -> None:
    text = card.render("m", "<s>", None)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# m",
        "## Use",
        "## Limits",
    ]
    assert "It was not measured there" in text


def test_what_transformers_loads_goes(llama_folder, tmp_path, capsys) -> None:
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", llama_folder, source], check=True)
    (source / "notes.jsonl").write_text("{}\n")
    target = tmp_path / "new" / "policy"
    assert cli.main(["push", str(source), str(target)]) == 0
    assert capsys.readouterr().out == f"{target}, with its card README.md\n"
    names = {path.name for path in target.iterdir()}
    own = {path.name for path in source.iterdir()}
    assert names == (own | {"README.md"}) - {"notes.jsonl"}
    models = [
        AutoModelForCausalLM.from_pretrained(folder)
        for folder in (llama_folder, target)
    ]
    first, second = (model(IDS).logits for model in models)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        ("me/policy", False),
        ("./policy", True),
        ("../policy", True),
        ("/tmp/policy", True),
        ("~/policy", True),
        ("artifacts/policy", True),
        ("policy", True),
        ("a/b/c", True),
    ],
)
def test_a_target_is_a_folder_or_a_name(target, folder) -> None:
    assert hub.is_folder(target) is folder


def test_a_folder_with_something_stays_as_it_is(
    llama_folder, tmp_path
) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "policy").mkdir()
    for target in (tmp_path, tmp_path / "policy/..", "/"):
        with pytest.raises(StylerlError, match="holds something"):
            hub.push(llama_folder, "card", str(target), False)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_folder_without_a_model_is_refused(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="config.json and safetensors"):
        hub.push(tmp_path, "card", str(tmp_path / "new"), False)


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as one commit needs; it keeps what it was sent."""

    sent: dict[str, bytes] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.sent[self.path] = body
        address = f"http://{self.headers['Host']}/me/policy"
        answer: dict = {"url": address, "name": "me/policy"}
        if "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            answer = {
                "files": [
                    {"path": n, "uploadMode": "regular", "shouldIgnore": False}
                    for n in names
                ]
            }
        elif "/commit/" in self.path:
            url = f"{address}/commit/{40 * '0'}"
            answer = {"commitUrl": url, "commitOid": 40 * "0"}
        self.reply(answer)

    def do_GET(self) -> None:
        self.reply({"id": "me/policy", "sha": 40 * "0", "siblings": []})

    def reply(self, answer: dict) -> None:
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub on this machine, that huggingface_hub is told to use."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    api = HfApi(endpoint=address, token="hf_x")
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: api)
    Hub.sent.clear()
    yield address
    server.shutdown()
    server.server_close()


def test_a_hub_gets_one_commit(endpoint, llama_folder, capsys) -> None:
    assert cli.main(["push", str(llama_folder), "me/policy"]) == 0
    out = capsys.readouterr().out
    assert out == f"{endpoint}/me/policy, with its card README.md\n"
    made = json.loads(Hub.sent["/api/repos/create"])
    assert (made["name"], made["visibility"]) == ("policy", "private")
    (path,) = (path for path in Hub.sent if "/commit/" in path)
    assert path.startswith("/api/models/me/policy/commit/main")
    lines = map(json.loads, Hub.sent[path].splitlines())
    files = {
        line["value"]["path"]: base64.b64decode(line["value"]["content"])
        for line in lines
        if line["key"] == "file"
    }
    assert "# me/policy" in files.pop("README.md").decode()
    assert files == {
        file.name: file.read_bytes() for file in llama_folder.iterdir()
    }


def test_no_network_is_one_line(llama_folder, capsys) -> None:
    assert cli.main(["push", str(llama_folder), "me/policy"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stylerl: cannot push to me/policy on https://")
    assert "offline mode" in line and "push to ./me/policy" in line


def test_scores_are_those_of_the_bytes(tmp_path, monkeypatch) -> None:
    """DVC vouches for the evaluation, until the policy changes."""
    monkeypatch.chdir(tmp_path)
    policy, base = Path("artifacts/ppo"), Path("artifacts/other")
    for folder in (policy, base, Path("artifacts/filter")):
        folder.mkdir(parents=True)
    (policy / "config.json").write_text("{}")
    SNIPPETS.to_parquet(paths.SNIPPETS)
    storage.write_json(paths.EVALUATION, {"size": 1})
    storage.write_json(push_command.JUDGE, {"judge": "j"})
    storage.write_json(push_command.SFT, {"snippets": 2})
    UPDATES.to_csv(paths.UPDATES, index=False)
    Path("dvc.yaml").write_text(
        "stages: {evaluate: {cmd: 'true', deps: [artifacts/ppo]},"
        " ppo: {cmd: 'true', params: [ppo.updates]}}"
    )
    Path("params.yaml").write_text("ppo: {updates: 3}\n")
    for command in (("init", "--no-scm", "-q"), ("repro", "-q")):
        subprocess.run([sys.executable, "-m", "dvc", *command], check=True)
    run = push_command.evidence(policy)
    assert run is not None
    assert (run.role, run.judge, run.metrics) == ("ppo", "j", {"size": 1})
    assert run.learned == 2
    assert push_command.evidence(base) is None
    Path("params.yaml").write_text("ppo: {updates: 4}\n")
    with pytest.raises(StylerlError, match="not of artifacts/ppo as it is"):
        push_command.evidence(policy)  # the card would say 4 updates
    Path("params.yaml").write_text("ppo: {updates: 3}\n")
    (policy / "config.json").write_text('{"a": 1}')
    with pytest.raises(StylerlError, match="not of artifacts/ppo as it is"):
        push_command.evidence(policy)
