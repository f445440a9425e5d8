"""The `stylerl` command: help that teaches, one message for an error."""

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from conftest import run_python

from stylerl import config
from stylerl.cli import commands, complete_command
from stylerl.cli import main as cli
from stylerl.errors import ConfigError
from stylerl.pipeline import workspace

ANYWHERE = re.findall(r"^    (\w+) ", commands.parser().format_help(), re.M)
COMMANDS = ["run", "serve", *ANYWHERE]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout, as far as a command looks."""
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "flows").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if f"    {name} " not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: stylerl {command}")
    assert len(text.splitlines()) >= 5
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ppo.kl_coef=0.1", {"ppo.kl_coef": 0.1}),
        ("seed=3", {"seed": 3}),
        ("judge.config=null", {"judge.config": None}),
        ("judge.select=[E, W]", {"judge.select": ["E", "W"]}),
        ("sft.base=a=b", {"sft.base": "a=b"}),
    ],
)
def test_set_reads_values_as_yaml(text: str, value: dict[str, object]) -> None:
    assert commands.changes([text]) == value


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["ppo.kl_coef"], "a setting is KEY=VALUE"),
        (["=1"], "a setting is KEY=VALUE"),
        (["judge.select=[E"], "value of 'judge.select' is not valid YAML"),
        (["seed=0b_"], "the value of 'seed' is not valid YAML"),
    ],
)
def test_set_refuses_what_is_no_assignment(
    texts: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        commands.changes(texts)


def test_params_writes_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["params", "--preset", "smoke", "--set", "ppo.kl_coef=0.2"]
    assert cli.main(arguments) == 0
    written = config.load(Path("params.yaml"))
    smoke = config.from_preset("smoke")
    assert written == config.override(smoke, {"ppo.kl_coef": 0.2})
    assert yaml.safe_load(capsys.readouterr().out)["ppo"]["kl_coef"] == 0.2


def test_params_are_not_changed_during_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path(".dvc").mkdir()
    assert cli.main(["params", "--preset", "smoke"]) == 0
    before = Path("params.yaml").read_text()
    with workspace.exclusive():
        assert cli.main(["params"]) == 0  # reading is allowed
        assert cli.main(["params", "--set", "seed=3"]) == 2
    assert "one run at a time" in capsys.readouterr().err
    assert Path("params.yaml").read_text() == before


def test_a_preset_is_no_parameter() -> None:
    with pytest.raises(ConfigError, match="say --preset gpu"):
        workspace.resolve("smoke", {"preset": "gpu"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["params"], "params.yaml must be a readable file"),
        (
            ["params", "--preset", "smoke", "--set", "ppo.kl=1"],
            "unknown parameter 'ppo.kl'",
        ),
        (["collect", "--source", "path"], "--source path needs a path"),
        (["collect", "nowhere"], "environment takes no path; got 'nowhere'"),
        (
            ["collect", "--source", "hub", "--limit", "-5"],
            "--limit must be 0, for all, or more; got",
        ),
        (["run"], "params.yaml must be a readable file"),
        (["report"], "artifacts/report/report.html does not exist"),
    ],
)
def test_one_message_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("stylerl: ") and message in last


@pytest.mark.parametrize("command", ["run", "serve", "collect", "report"])
@pytest.mark.parametrize("mark", ["dvc.yaml", "flows"])
def test_what_needs_a_checkout_says_so(
    command: str, mark: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / mark).rename(folder / "gone")
    other = ", or --source path or hub" if command == "collect" else ""
    assert cli.main([command]) == 2
    assert capsys.readouterr().err == (
        f"stylerl: `stylerl {command}` needs a checkout of stylerl{other}; "
        f"{folder} has no {mark}: `git clone` it and run there\n"
    )


def test_the_script_finds_the_flows_of_a_checkout() -> None:
    """A console script's sys.path[0] is its own folder, not the checkout."""
    code = (
        "import os, sys; from stylerl.cli import checkout; "
        "sys.path = [p for p in sys.path if p not in ('', os.getcwd())]; "
        "checkout.enter('x'); import flows; print(flows.__file__)"
    )
    root = Path(cli.__file__).resolve().parents[2]
    done = run_python(code, cwd=root)
    assert done.stdout == f"{root / 'flows/__init__.py'}\n", done.stderr


def test_collect_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.py").write_text("x = 1\n")
    assert cli.main(["collect", "--source", "path", "mine"]) == 0
    manifest = json.loads(Path("data/manifest.json").read_text())
    assert manifest["source"] == "path"


def test_complete_shows_each_model_that_is_there(
    llama_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """artifacts/sft and artifacts/ppo do not exist here: the base alone."""
    changes = ["--set", f"sft.base={llama_folder}"]
    changes += ["--set", "evaluate.max_new_tokens=4"]
    assert cli.main(["params", "--preset", "smoke", *changes]) == 0
    capsys.readouterr()
    assert cli.main(["complete", "def add(a, b):"]) == 0
    shown = capsys.readouterr().out
    assert "base" in shown and "def add(a, b):" in shown
    assert "PPO" not in shown
    assert "Each is the linter's choice of 2." in shown
    assert cli.main(["complete", "def add(a, b):", "--seed", "1"]) == 0
    assert capsys.readouterr().out != shown
    assert cli.main(["complete", "--best-of", "1", "def add(a, b):"]) == 0
    assert "choice" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["complete", "--best-of", "0", "def add(a, b):"])
    assert "--best-of" in capsys.readouterr().err


def test_complete_takes_model_folders_without_a_checkout(
    llama_folder: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dvc.yaml").unlink()
    arguments = ["complete", "--model", str(llama_folder), "def f(x):"]
    assert cli.main(arguments) == 0
    assert llama_folder.name in capsys.readouterr().out

    assert cli.main(["complete", "--model", "nowhere", "def f(x):"]) == 2
    message = "or a GGUF file; nowhere has no config.json"
    assert message in capsys.readouterr().err

    assert cli.main(["complete", "def f(x):"]) == 2
    said = capsys.readouterr().err
    assert "needs a checkout of stylerl, or --model MODEL" in said


def test_models_of_one_name_are_told_apart_by_their_paths(
    folder: Path,
) -> None:
    one, two, other = Path("a/m"), Path("b/m"), Path("b/n")
    for each in (one, two, other):
        each.mkdir(parents=True)
        (each / "config.json").touch()
    assert complete_command.labelled([one, other]) == {"m": "a/m", "n": "b/n"}
    assert complete_command.labelled([one, two]) == {
        "a/m": "a/m",
        "b/m": "b/m",
    }


def test_a_command_whose_package_is_missing_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    for command in (["run", "--preset", "smoke"], ["serve"]):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.startswith(
            "stylerl: this needs prefect, which is not installed: "
            "pip install prefect; "
        )
