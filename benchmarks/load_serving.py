"""The served champion under requests, and under more than it can take.

FOLDER is a policy, such as artifacts/ppo: it is registered in a store of its
own, becomes champion and is served as docs/howto/share.md says.  A few
clients ask one question after the other, and every answer must be there and
be that of the first time.  Then many clients ask at once, without a pause:
each question must be answered, or refused with 503, our message and
Retry-After, and the server must answer as before afterwards.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from bench_idle import answers

from stylerl.config import Params
from stylerl.evaluation.promotion import ALREADY, Decision
from stylerl.pipeline import registry

TITLE = "The served champion"
CHAMPION = f"models:/{registry.MODEL}@{registry.CHAMPION}"
QUESTIONS = 20  # different ones, asked again and again
FLOOD = 10  # questions of each of the many clients
LIMIT = 120.0  # seconds after which a question is lost


class Answer(NamedTuple):
    """What one question came to."""

    question: int
    status: int  # 0 where there was none
    text: str
    retry_after: str | None
    seconds: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a user may choose."""
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--clients", type=int, default=2, metavar="N")
    parser.add_argument("--requests", type=int, default=200, metavar="N")
    parser.add_argument("--flood", type=int, default=32, metavar="CLIENTS")


def measure(options: argparse.Namespace) -> str:
    """Ask, flood, ask once more; what was answered and how fast."""
    clients, flood = options.clients, options.flood
    with serving(options.folder.resolve()) as (server, url):
        first = ask(url, QUESTIONS, 1)
        before = memory(server)
        calm = ask(url, clients * options.requests, clients)
        after = memory(server)
        flooded = ask(url, flood * FLOOD, flood)
        last = ask(url, QUESTIONS, 1)
        end = memory(server)
    expected = {each.question: each.text for each in first}
    answers = [*first, *calm, *flooded, *last]
    wrong = [each for each in answers if not right(each, expected)]
    refused = [each for each in flooded if each.status == 503]
    unforced = [each for each in [*first, *calm, *last] if each.status != 200]
    if wrong or unforced or not refused:
        raise SystemExit(f"wrong {wrong[:3]}, refused {unforced[:3]}")
    statuses = Counter(each.status for each in flooded)
    slowest = max(each.seconds for each in flooded)
    return (
        f"{clients} clients, {options.requests} requests each, one prompt a "
        "request, sampled as the policy was evaluated: "
        f"{len(calm)} answers, each the same as the first time, none lost; "
        f"latency p50 {at(calm, 50)}, p95 {at(calm, 95)}, p99 "
        f"{at(calm, 99)} s. Memory of the server {before:.0f} MiB before, "
        f"{after:.0f} MiB after, {end:.0f} MiB at the end.\n\n"
        f"{flood} clients at once, {FLOOD} requests each without a pause: "
        f"{statuses[200]} answered, {statuses[503]} refused with 503 and "
        f"Retry-After, no other end; refusals took p50 {at(refused, 50)}, "
        f"p99 {at(refused, 99)} s, the slowest answer {slowest:.1f} s. The "
        "server then answered as before."
    )


def right(answer: Answer, expected: dict[int, str]) -> bool:
    """Whether it is the answer, or a refusal as it should be."""
    if answer.status == 200:
        return answer.text == expected[answer.question]
    refusal = answer.status == 503 and answer.retry_after == "2"
    return refusal and "requests may wait" in answer.text


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """The process and the address of a server of the folder's policy."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as store:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{store}/mlflow.db"
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["PATH"] = (
            f"{Path(sys.executable).parent}:" + (os.environ["PATH"])
        )
        os.chdir(store)
        version = registry.register(
            None, str(folder), "bench", {}, as_evaluated()
        )
        assert version, "not registered"
        registry.promote(version, "run", lambda _: Decision([ALREADY]))
        said = Path(store, "said")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "models", "serve"),
                *("-m", CHAMPION, "--env-manager", "local", "-p", port),
            ],
            stdout=subprocess.DEVNULL,
            stderr=said.open("w"),
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            while not answers(f"{url}/ping"):
                assert process.poll() is None, said.read_text()
                time.sleep(0.3)
            yield process.pid, f"{url}/invocations"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            os.chdir(here)


def as_evaluated() -> dict[str, Any]:
    """How the evaluation samples, as flows/rlhf.py registers it."""
    chosen = Params().evaluate.sampling
    return {**chosen, "stop_strings": [*chosen["stop_strings"]]}


def ask(url: str, count: int, clients: int) -> list[Answer]:
    """That many questions, by clients that each wait for their answer."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda i: one(url, i % QUESTIONS), range(count)))


def one(url: str, number: int) -> Answer:
    """One question."""
    body = {
        "inputs": {"prompt": [f"def load_{number}(path, limit={number}):"]},
        "params": {"seed": number},
    }
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    started, after = time.perf_counter(), None
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as reply:
            status, text = reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
        after = error.headers["Retry-After"]
    except OSError as error:
        status, text = 0, str(error)
    return Answer(number, status, text, after, time.perf_counter() - started)


def memory(server: int) -> float:
    """MiB of the server's processes."""
    root = psutil.Process(server)
    tree = [root, *root.children(recursive=True)]
    return sum(each.memory_info().rss for each in tree) / 2**20


def at(answers: list[Answer], percentile: float) -> str:
    """A percentile of the latencies in seconds."""
    seconds = [each.seconds for each in answers]
    return f"{np.percentile(seconds, percentile):.2f}"
