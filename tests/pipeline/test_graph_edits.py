"""What an edit reruns, by the real dvc.yaml.

The stages, their dependencies and outputs are those of the repository, in a
DVC repository of their own; only the commands are cheap ones, which write
outputs that the test chooses.
"""

import shutil
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path

import pytest
import yaml
from conftest import dvc, write_params

from stylerl.pipeline import graph

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATE = Path("stylerl/report/report.html.j2")
RULE = Path("stylerl/corrupt/spacing.py")
# As `dvc config` writes it, which takes a second.
DVC_CONFIG = """
[core]
    analytics = false
    no_scm = True
"""
# Appends its name to `executed`, and writes each output: the name, and what
# the file `results/NAME` holds, if there is one.
COMMAND = """
import sys
from pathlib import Path

name, *outs = sys.argv[1:]
with Path("executed").open("a") as log:
    log.write(name + "\\n")
result = Path("results", name)
for out in map(Path, outs):
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(name + (result.read_text() if result.exists() else ""))
"""


def with_cheap_commands() -> str:
    """The repository's dvc.yaml; each stage only writes its outputs."""
    declared = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    with chdir(ROOT):
        stages = graph.load_stages()
    for stage in stages:
        entry = declared["stages"][stage.name]
        words = ["python", "command.py", stage.name, *stage.outs]
        entry["cmd"] = " ".join(words)
    return yaml.safe_dump(declared, sort_keys=False)


@pytest.fixture(scope="module")
def after_first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every stage has run once."""
    folder = tmp_path_factory.mktemp("graph") / "workspace"
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("stylerl", "tasks"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    shutil.copy(ROOT / ".dvcignore", folder)
    (folder / "data").mkdir()
    (folder / "data/corpus").write_text("code")
    (folder / "results").mkdir()
    (folder / "preferences.jsonl").touch()
    (folder / "command.py").write_text(COMMAND)
    write_params(folder=folder)
    (folder / "dvc.yaml").write_text(with_cheap_commands())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        dvc("init", "-q", "--no-scm")
        Path(".dvc/config").write_text(DVC_CONFIG)
        dvc("repro", "-q")
        Path("executed").unlink()
    return folder


@pytest.fixture(autouse=True)
def folder(
    after_first_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of that workspace, as the current directory."""
    shutil.copytree(after_first_run, tmp_path / "workspace")
    monkeypatch.chdir(tmp_path / "workspace")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return tmp_path / "workspace"


def stale() -> set[str]:
    """The stages that DVC would run, those after them left out.

    `fingerprint` is always changed, and here its command writes what it wrote.
    """
    return set(yaml.safe_load(dvc("status", "--json"))) - {"fingerprint"}


def executed() -> list[str]:
    """The stages that ran, in order; `fingerprint`, which always does, is
    left out."""
    log = Path("executed")
    names = log.read_text().split() if log.exists() else []
    return [name for name in names if name != "fingerprint"]


def keys() -> dict[str, str]:
    return {s.name: graph.stage_key(s) for s in graph.load_stages()}


def append_comment(path: Path) -> None:
    path.write_text(path.read_text() + "# a comment\n")


def changed_keys(edit: Callable[[], None]) -> set[str]:
    """The stages whose key an edit changes."""
    before = keys()
    edit()
    return {name for name, key in keys().items() if key != before[name]}


def test_an_edit_of_the_template_reruns_the_report_alone() -> None:
    assert changed_keys(lambda: append_comment(TEMPLATE)) == {"report"}
    assert stale() == {"report"}
    dvc("repro")
    assert executed() == ["report"]
    assert stale() == set()


def test_an_edit_of_a_rule_that_changes_no_label() -> None:
    """The labels, and the reward models trained on them, have the same bytes.

    So what reads them is up to date: neither PPO nor evaluation runs.
    """
    append_comment(RULE)
    assert stale() == {"label", "reward"}
    dvc("repro")
    assert executed() == ["label", "reward"]
    assert stale() == set()


def test_an_edit_of_a_rule_that_changes_labels() -> None:
    append_comment(RULE)
    for stage in ("label", "sft", "reward", "ppo", "skill", "evaluate"):
        Path("results", stage).write_text("other bytes")
    dvc("repro")
    assert executed() == [
        "label", "sft", "reward", "ppo", "skill", "evaluate", "report",
    ]  # fmt: skip


def test_an_edit_reruns_what_uses_it() -> None:
    """By key, one edit after the other; DVC agrees on all of them."""
    rerun: set[str] = set()
    for path, stages in (
        ("stylerl/reward_models/pairs.py", {"reward"}),
        ("stylerl/base/tiny.py", {"base"}),
        ("stylerl/pipeline/tracking.py", set()),
        ("stylerl/ppo/learner.py", {"ppo"}),
        ("stylerl/evaluation/measurement/metrics.py", {"evaluate"}),
        ("stylerl/evaluation/promotion.py", set()),
        ("stylerl/evaluation/guards.py", {"report"}),
    ):
        edit = partial(append_comment, Path(path))
        assert changed_keys(edit) == stages, path
        rerun |= stages
    assert stale() == rerun
