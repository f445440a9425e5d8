"""What parameters name decides by its content whether a stage runs."""

import importlib.metadata
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import dvc, write_params

from stylerl import config
from stylerl.errors import ConfigError
from stylerl.pipeline import fingerprints, graph, stage_task

WRITTEN = str(fingerprints.FOLDER / "judge.json")
ROOT = Path(__file__).resolve().parents[2]
STYLE = "[flake8]\nselect = E,W,F\n"
PLUGIN = """\
class Checker:
    name, version = "local", "1"

    def __init__(self, tree):
        pass

    def run(self):
        return iter(())
"""
LOCAL = """\
[flake8:local-plugins]
extension =
    XYZ = local_plugin:Checker
paths = .
"""
READERS = {"label", "reward", "ppo", "skill", "evaluate"}  # of judge.json


def append(path: str, text: str) -> None:
    Path(path).write_text(Path(path).read_text() + text)


def upgrade(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of an installed distribution."""
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata,
        "version",
        lambda other: "99.0" if other == name else version(other),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout's files that are named, and what the stage wrote of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "named_rewards", raising=False)
    Path("style.cfg").write_text(STYLE + LOCAL)
    Path("local_plugin.py").write_text(PLUGIN)
    Path("named_rewards.py").write_text(
        "def one(p, c):\n    return [1.0] * 2\n"
    )
    parts = {"linter": 1, "named_rewards:one": 1}
    changes = {"judge.config": "style.cfg", "ppo.reward": parts}
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    fingerprints.write(write_params(changes))


def edits(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """Each kind of thing that is named, changed."""
    return {
        "configuration": lambda: append(
            "style.cfg", "[flake8:x]\nignore = E501\n"
        ),
        "local plugin": lambda: append("local_plugin.py", "X = 1\n"),
        "pycodestyle": lambda: upgrade("pycodestyle", monkeypatch),
        "flake8": lambda: upgrade("flake8", monkeypatch),
        "ruff": lambda: upgrade("ruff", monkeypatch),  # the fixer
        "reward function": lambda: append("named_rewards.py", "X = 1\n"),
    }


def keys() -> dict[str, str]:
    return {
        stage.name: graph.stage_key(stage) for stage in graph.load_stages()
    }


@pytest.mark.parametrize(
    ("kind", "readers"),
    [
        ("configuration", READERS),
        ("local plugin", READERS),
        ("pycodestyle", READERS),
        ("flake8", READERS),
        ("ruff", READERS),
        ("reward function", {"ppo"}),
    ],
)
def test_an_edit_reaches_the_stages_that_depend_on_it(
    kind: str, readers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    params, before = config.load(), keys()
    assert not fingerprints.changed(params)
    edits(monkeypatch)[kind]()
    assert fingerprints.changed(params)
    fingerprints.write(params)
    assert not fingerprints.changed(params)
    after = keys()
    assert {name for name in after if after[name] != before[name]} == readers


def test_a_comment_in_the_configuration_changes_nothing() -> None:
    append("style.cfg", "# a comment\n")
    assert not fingerprints.changed(config.load())


def test_what_was_never_written_has_changed() -> None:
    (fingerprints.FOLDER / "reward.json").unlink()
    assert fingerprints.changed(config.load())


def test_dvc_and_the_flow_see_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real repository with the stage, and one that reads what it wrote."""
    command = f"{sys.executable} -m tasks.fingerprint"
    stages = {
        "fingerprint": {
            "cmd": command,
            "always_changed": True,
            "params": ["judge", "ppo.reward"],
            "outs": [WRITTEN],
        },
        "label": {
            "cmd": f"echo ran >> log && cp {WRITTEN} label",
            "deps": [WRITTEN],
            "outs": ["label"],
        },
    }
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    dvc("init", "-q", "--no-scm")
    dvc("repro", "-q")
    assert stage_task.stale.fn() == set()
    dvc("repro", "-q")
    assert Path("log").read_text() == "ran\n"
    append("style.cfg", "[flake8:x]\nignore = E501\n")
    assert stage_task.stale.fn() == {"fingerprint"}
    assert "label" in dvc("repro")
    assert Path("log").read_text() == "ran\nran\n"
    assert stage_task.stale.fn() == set()


def test_a_function_of_the_reward_must_be_there() -> None:
    changes = {"ppo.reward": {"no_such_module:one": 1}}
    params = config.override(config.load(), changes)
    with pytest.raises(ConfigError, match="no_such_module"):
        fingerprints.digests(params)
