"""The wheel, installed where there is no checkout and no pipeline.

A fresh environment gets the wheel, and of this one's packages those that its
requirements lead to and no other: what `pip install 'stylerl[train]'` would
bring, or `pip install stylerl`, without the download.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SOURCES = (  # what a build could find, and more than it may take
    *("pyproject.toml", "README.md", "LICENSE", "stylerl", "tasks", "flows"),
    *("tests", "benchmarks", "tools"),
)
PIPELINE = {"prefect", "dvc", "mlflow"}
TRAIN = """
import sys
from stylerl.config import JudgeConfig, PPOConfig
from stylerl.judge import Judge
from stylerl.lm import models, encoding
from stylerl.ppo import PPOTrainer
from stylerl.reward.grader import StyleGrader

tokenizer = encoding.load_tokenizer(sys.argv[1])
trainer = PPOTrainer(
    PPOConfig(updates=1, batch_size=4, num_minibatches=1, update_epochs=1,
              max_new_tokens=4),
    policy=models.load_causal_lm(sys.argv[1], tokenizer),
    tokenizer=tokenizer,
    grader=StyleGrader(Judge(JudgeConfig()), {"linter": 1.0}, {}, {}),
    prompts=["def add(a, b):", "def first(items):"],
)
print(len([step for step in trainer]), "update")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves build/ beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            kept = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=kept)
        else:
            shutil.copy(ROOT / name, copy)
    pip("wheel", copy, "-w", folder, "--no-deps", "--no-build-isolation")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of an environment with the wheel and what trains."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    return install(wheel, required(wheel, "", "train"), folder)


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of an environment with the wheel and its base alone."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    return install(wheel, required(wheel, ""), folder)


def install(wheel: Path, needed: list[Requirement], folder: Path) -> Path:
    """Make an environment; its bin/."""
    command = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(command, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in closure(needed):
        for file in metadata.files(name) or ():
            here = packages / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not (
                here.is_symlink()
            ):
                here.symlink_to(
                    file.locate().parents[len(file.parts) - 1] / file.parts[0]
                )
    target = ("--python", folder / "bin/python")
    pip(*target, "install", "--no-deps", "--no-index", wheel)
    return folder / "bin"


def pip(*arguments: object) -> None:
    """Run this environment's pip, which needs no network here."""
    command = [sys.executable, "-m", "pip", "-q", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def required(wheel: Path, *extras: str) -> list[Requirement]:
    """What the wheel requires, by an extra or, of "", without any."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
        headers = Parser().parsestr(archive.read(name).decode())
    return [
        each
        for each in map(Requirement, headers.get_all("Requires-Dist", []))
        for extra in extras
        if (not each.marker and not extra)
        or (each.marker and extra and each.marker.evaluate({"extra": extra}))
    ]


def closure(needed: list[Requirement]) -> set[str]:
    """The names of all distributions that these lead to."""
    found: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in needed for extra in all_of(each)]
    while waiting:
        requirement, extra = waiting.pop()
        key = (canonicalize_name(requirement.name), extra)
        if key in found:
            continue
        found.add(key)
        for line in metadata.requires(key[0]) or ():
            other = Requirement(line)
            if not other.marker or other.marker.evaluate({"extra": extra}):
                waiting += [(other, each) for each in all_of(other)]
    return {name for name, _ in found}


def all_of(requirement: Requirement) -> list[str]:
    """The extras that are asked for, and none, which comes with each."""
    return ["", *requirement.extras]


def run(
    environment: Path, folder: Path, *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment in `folder`, away from the checkout."""
    program, *rest = map(str, arguments)
    return subprocess.run(
        [environment / program, *rest],
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "PATH": f"{environment}:/usr/bin:/bin",
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
    )


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    information = {n.split("/")[0] for n in names if ".dist-info/" in n}
    assert {n.split("/")[0] for n in names} - information == {"stylerl"}
    for suffix in ("py", "yaml", "j2", "md"):
        here = (ROOT / "stylerl").rglob(f"*.{suffix}")
        expected = {file.relative_to(ROOT).as_posix() for file in here}
        assert expected
        assert {n for n in names if n.endswith(f".{suffix}")} == expected


def test_what_trains_brings_no_pipeline(wheel: Path) -> None:
    linters = {"flake8", "mccabe", "pycodestyle", "pyflakes"}
    assert closure(required(wheel, "")) == linters | {"pyyaml", "tqdm"}
    names = closure(required(wheel, "", "train"))
    assert {"torch", "flake8", "transformers"} <= names
    others = {"trl", "datasets", "distributed", "peft"}
    assert names & (PIPELINE | others) == set()


def test_the_judge_needs_no_torch(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "rough.py").write_text("x=1\n")
    done = run(bare, tmp_path, "stylerl", "judge", "rough.py")
    assert done.returncode == 1, done.stderr
    assert "E225" in done.stdout
    done = run(bare, tmp_path, "stylerl", "complete", "x", "--model", ".")
    assert done.returncode == 2
    assert "which is not installed: pip install " in done.stderr
    assert "'stylerl[train]' brings what most commands need" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor(environment: Path, tmp_path: Path) -> None:
    done = run(environment, tmp_path, "stylerl", "doctor")
    failed = re.findall(r"^ *FAIL +(\w+)", done.stdout, re.MULTILINE)
    assert set(failed) <= {"disk"}, done.stdout + done.stderr
    for check in ("torch", "sandbox", "disk"):
        assert f" {check} " in done.stdout


def test_a_trainer(
    environment: Path, tmp_path: Path, llama_folder: Path
) -> None:
    done = run(environment, tmp_path, "python", "-c", TRAIN, llama_folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 update\n"


def refusals(
    environment: Path, folder: Path, commands: list[str]
) -> list[str]:
    """What each command says, of which every one is a refusal in a line."""
    code = f"""
from stylerl.cli.main import main
print({{main(command.split()) for command in {commands}}})"""
    done = run(environment, folder, "python", "-c", code)
    assert done.stdout == "{2}\n", done.stderr
    return done.stderr.splitlines()


def test_what_needs_a_checkout_says_so_in_one_line(
    environment: Path, tmp_path: Path
) -> None:
    """The first as a process, the others one after the other in another."""
    names = ["run", "serve", "collect", "report", "complete"]
    done = run(environment, tmp_path, "stylerl", "run")
    assert done.returncode == 2
    others = [*names[1:-1], "complete x"]
    said = [done.stderr, *refusals(environment, tmp_path, others)]
    for name, line in zip(names, said, strict=True):
        assert line.startswith(f"stylerl: `stylerl {name}` needs a checkout")


def test_in_a_checkout_the_missing_extra_is_named(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "dvc.yaml").touch()
    shutil.copytree(ROOT / "flows", tmp_path / "flows")
    commands = ["run --preset smoke", "serve"]
    for said in refusals(environment, tmp_path, commands):
        assert said.startswith(
            "stylerl: this needs prefect, which is not installed: "
            "pip install prefect; "
        )
        assert said.endswith("'stylerl[pipeline]' what a run does")
