"""`stylerl judge`: its output, its exit codes, its choice of files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_python

from stylerl.cli import main
from stylerl.cli.commands import parser
from stylerl.errors import DataError

ROOT = Path(__file__).parent.parent.parent


def run(*words: str) -> int:
    options = parser().parse_args(["judge", *words])
    return int(options.command(options))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three Python files, one of them clean, and other things."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / ".git").mkdir(parents=True)
    (tmp_path / "src" / "clean.py").write_text("x = 1\n")
    (tmp_path / "src" / "dirty.py").write_text("x=1\ny=2 \n")
    (tmp_path / "src" / "broken.py").write_text("def f(:\n")
    (tmp_path / "src" / "notes.txt").write_text("x=1\n")
    (tmp_path / "src" / ".git" / "hook.py").write_text("x=1\n")
    return tmp_path


def test_the_table_counts_by_rule(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("src") == 1
    # Scores: 1 clean, 0 broken, 1 - 3/10 dirty; (1 + 0 + 0.7) / 3 = 0.567.
    assert capsys.readouterr().out.splitlines() == [
        "rule     count  files  first found",
        "E225         2      1  src/dirty.py:1:2 missing whitespace around "
        "operator",
        "E999         1      1  src/broken.py:1:8 SyntaxError: invalid syntax",
        "W291         1      1  src/dirty.py:2:4 trailing whitespace",
        "not parsed: src/broken.py: E999 SyntaxError: invalid syntax",
        "3 files: 1 compliant (33.3%), 1 not parsed, 4 violations, mean "
        "score 0.567",
    ]


def test_json_is_one_object_a_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("src", "--format", "json") == 1
    lines = capsys.readouterr().out.splitlines()
    broken, clean, dirty = (json.loads(line) for line in lines)
    assert clean == {
        "path": "src/clean.py",
        "parsed": True,
        "reason": None,
        "compliant": True,
        "score": 1.0,
        "violations": [],
    }
    assert broken["parsed"] is False
    assert broken["reason"].startswith("E999")
    assert broken["score"] == 0.0
    assert dirty["violations"][2] == {
        "row": 2,
        "col": 4,
        "code": "W291",
        "text": "trailing whitespace",
    }


def test_ruff_judges_the_files_that_ruff_would_check(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "left_out").mkdir()
    for name in ("left_out/x.py", "book.ipynb"):
        (project / "src" / name).write_text("x = 1 \n")
    (project / "ruff.toml").write_text(
        'extend-exclude = ["left_out"]\nlint.select = ["W"]\n'
    )
    ruff = ("--set", "judge.engine=ruff", "--config", "ruff.toml")
    assert run("src", "gone.py", *ruff) == 2
    said = capsys.readouterr()
    # Scores: 1 clean, 0 broken, 1 - 1/10 dirty; (1 + 0 + 0.9) / 3 = 0.633.
    assert said.out.splitlines()[1:] == [
        "invalid-syntax        2      1  src/broken.py:1:7 Expected a "
        "parameter or the end of the parameter list",
        "W291                  1      1  src/dirty.py:2:4 Trailing whitespace",
        "not parsed: src/broken.py: invalid-syntax Expected a parameter or "
        "the end of the parameter list",
        "3 files: 1 compliant (33.3%), 1 not parsed, 3 violations, mean "
        "score 0.633",
    ]
    assert "cannot read gone.py: No such file" in said.err
    with pytest.raises(DataError, match="found none below src/book.ipynb"):
        run("src/book.ipynb", *ruff)


def test_a_name_cannot_command_the_terminal(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "red\x1b[31m.py").write_text("x=1\n")
    assert run("src/red\x1b[31m.py", "gone\x1b[0m.py") == 2
    printed = capsys.readouterr()
    assert "src/red␛[31m.py:1:2 missing" in printed.out
    assert "cannot read gone␛[0m.py" in printed.err


def test_clean_files_are_exit_code_0(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("src/clean.py") == 0
    assert capsys.readouterr().out == (
        "1 file: 1 compliant (100.0%), 0 not parsed, 0 violations, mean "
        "score 1.000\n"
    )


def test_an_unreadable_file_is_exit_code_2_and_the_rest_is_judged(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("src/dirty.py", "src/gone.py", "--format", "json") == 2
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert printed.err == (
        "stylerl: cannot read src/gone.py: No such file or directory\n"
    )


def test_a_linter_that_fails_is_exit_code_2(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "zero.cfg").write_text("[flake8]\nindent-size = 0\n")
    (project / "one.py").write_text("if True:\n    x = 1\n")
    assert run("one.py", "--config", "zero.cfg") == 2
    assert "flake8 failed: ZeroDivisionError" in capsys.readouterr().out
    (project / "broken.py").write_text("x = (\n")
    assert run("broken.py") == 1


def test_a_setting_of_the_section_judge_counts(project: Path) -> None:
    (project / "wide.py").write_text(f"x = '{'a' * 79}'\n")  # 85 columns
    assert run("wide.py") == 1
    assert run("wide.py", "--set", "judge.max_line_length=85") == 0
    assert run("wide.py", "--set", "judge.max_line_length=84") == 1
    assert run("wide.py", "--set", "judge.select=[W]") == 0


def test_a_configuration_file_chooses_rules_and_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tox.ini").write_text(
        "[flake8]\nextend-exclude = src/broken.py\n"
        "per-file-ignores =\n    src/dirty.py: E225\n"
    )
    assert run("src", "--config", "tox.ini", "--format", "json") == 1
    lines = capsys.readouterr().out.splitlines()
    found = {file["path"]: file for file in map(json.loads, lines)}
    assert sorted(found) == ["src/clean.py", "src/dirty.py"]
    codes = [v["code"] for v in found["src/dirty.py"]["violations"]]
    assert codes == ["W291"]


# The words after `stylerl judge`, the exit code, and what the only line beside
# the output says; none if it is empty.  A shell reads those with such a mark.
SHELL = set("<>|$")
ONE_LINE = [
    ("src > /dev/full", 2, "No space left"),
    ("--format json src > /dev/full", 2, "No space left"),
    ("- < src/dirty.py", 1, ""),
    ("- src/clean.py < src/clean.py", 0, ""),
    ("src/dirty.py 2>&-", 1, ""),
    ("--format json src | head -1", 0, ""),  # head's exit code
    ("--set judge.max_line_length=5 src", 2, "max_line_length"),
    ("--set judge.widht=5 src", 2, "unknown parameter 'judge.widht'"),
    ("--set seed=5 src", 2, "of the section judge here"),
    ("empty", 2, "found none below empty"),
    ("--config n.cfg src", 2, "or name the plugin that has it"),
    ("--config n.cfg --set judge.plugins=[pep8-naming] src/name.py", 1, ""),
    ("$'src/\\xff.py'", 2, "cannot read"),
    ("$'src/\\xc3\\xa9.py'", 1, ""),  # to an output in ASCII
]


@pytest.mark.parametrize(("words", "code", "says"), ONE_LINE)
def test_what_goes_wrong_is_one_line(
    project: Path,
    words: str,
    code: int,
    says: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (project / "empty").mkdir()
    (project / "src" / "name.py").write_text("def Upper():\n    pass\n")
    (project / "n.cfg").write_text("[flake8]\nselect = N,B\n")
    (project / "src" / "é.py").write_text("x=1\n")
    if SHELL & set(words):
        judge = f"{sys.executable} -m stylerl.cli.main judge"
        done = subprocess.run(
            ["bash", "-c", f"{judge} {words}"],
            capture_output=True,
            text=True,
            timeout=60,
            env={
                "PYTHONPATH": str(ROOT),
                "PATH": os.environ["PATH"],
                "PYTHONIOENCODING": "ascii",
            },
        )
        ended, said = done.returncode, done.stderr
    else:
        ended = main.main(["judge", *words.split()])
        said = capfd.readouterr().err
    assert ended == code, said
    assert says in said
    assert len(said.splitlines()) == bool(says), said


def test_the_command_imports_nothing_large(project: Path) -> None:
    script = (
        "import sys\nfrom stylerl.cli import main\n"
        "assert main.main(['judge', 'src/clean.py']) == 0\n"
        "print({'torch', 'pandas', 'numpy', 'transformers', 'prefect', "
        "'mlflow', 'dvc'} & set(sys.modules))\n"
    )
    done = run_python(script, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.endswith("set()\n"), done.stderr


def test_a_reader_that_leaves_is_no_error(project: Path) -> None:
    for number in range(300):
        (project / "src" / f"m{number}.py").write_text("x=1\n" * 20)
    code = "from stylerl.cli import main; raise SystemExit(main.main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "judge", "src", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == main.READER_LEFT
    assert process.stderr.read() == b""
