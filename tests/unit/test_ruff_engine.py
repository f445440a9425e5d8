"""The judge's ruff: exact against the command, and what it refuses."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from ruff import find_ruff_bin

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError
from stylerl.judge import (
    Judge,
    Source,
    Verdict,
    Violation,
    worker_process,
)
from stylerl.judge.outcome import attribute
from stylerl.judge.place import File, Place
from stylerl.judge.positions import count_as_flake8, offset

RULES = """
[project]
name = "p"
requires-python = ">=3.9"
[tool.ruff]
extend = "base/more.toml"
fix = true
unsafe-fixes = true
fix-only = true
force-exclude = true
exclude = ["no"]
[tool.ruff.lint]
exclude = ["gen_*.py"]
extend-select = ["N", "I", "INP", "EXE"]
[tool.ruff.lint.per-file-ignores]
"tests/*" = ["F401"]
"""
MORE = 'line-length = 60\nlint.select = ["E", "F", "W"]\n'
# By file name, each with something that a judge could take amiss.
HOSTILE = {
    "a.py": b"import os  # noqa\nimport sys  # ruff: ignore[F401]\n",
    "all.py": b"# ruff: noqa\n# flake8: noqa\nimport os\n",
    "disabled.py": b"# ruff: disable[F401]\nimport os\n",
    "tests/t.py": b"import os\nx = 1;\n",
    "tests/a.py/deep.py": b"import os\nx = 1;\n",
    "no/excluded.py": b"import os\n",
    "gen_x.py": b"import os\n",
    "package/__init__.py": b"from package import one\nimport os\n",
    "package/two.py": b"import zlib\nfrom package import one\nimport a\n",
    "src/three.py": b"import zlib\nimport three\nimport requests\n",
    "crlf.py": b"import os\r\nx = 1 \r\n",
    "cr.py": b"import os\rx = 1;\r",
    "mixed.py": b"import os\r\nx = 1 \ny = 2 \r",
    "bom.py": b"\xef\xbb\xbfimport os; import sys\n",
    "feed.py": b"\x0cimport os\n\x0cx = 1;\n",
    "separator.py": "x = '\u2028';\ny = 1;\n".encode(),
    "tabs.py": b"if x:\n\ty =\t1;\tz = 2\n",
    "wide.py": 'é = "日本語"; import os; aB = 1\n'.encode(),
    "emoji.py": 'x = "\U0001f600\U0001f600"; import os\n'.encode(),
    "long.py": f"x = '{'é' * 56}'\n".encode(),
    "broken.py": b"def f(:\n  x = [\n",
    "broken_and_more.py": b"import os\nx = 1;\ny = (\n",
    "indent.py": b"def f():\n\tx = 1\n        y = 2\n",
    "new.py": b"match x:\n    case 1:\n        import os\n",
    "nul.py": b"x = 1\0\n",
    "empty.py": b"",
    "blank.py": b"\n\n\n",
    "no_end.py": b"x = 1;",
    "stub.pyi": b"import os\ndef f() -> int: ...\n",
    "shebang.py": b"#!/usr/bin/env python\nx = 1;\n",
    "not a name.py": b"import os\n",
    "later.py": b"def f(aB):\n    return aB\n" * 40,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile files in a project, under a hostile configuration."""
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("project")))
    for name, source in HOSTILE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
    (folder / "shebang.py").chmod(0o755)
    (folder / "package" / "one.py").touch()
    (folder / "base").mkdir()
    (folder / "base" / "more.toml").write_text(MORE)
    (folder / "pyproject.toml").write_text(RULES)
    return folder


def of(folder: Path, name: str = "pyproject.toml", **more: object) -> Judge:
    config = {"engine": "ruff", "config": str(folder / name), **more}
    return Judge(JudgeConfig(**config))  # type: ignore[arg-type]


def written(folder: Path, text: str) -> Judge:
    (folder / "ruff.toml").write_text(text)
    return of(folder, "ruff.toml")


@pytest.fixture(scope="module")
def verdicts(project: Path) -> dict[str, Verdict]:
    judge = of(project)
    found = judge.judge_files(Source(s, name) for name, s in HOSTILE.items())
    return dict(zip(HOSTILE, found, strict=True))


@pytest.fixture(scope="module")
def command(project: Path) -> dict[str, list[Violation]]:
    """What `ruff check` finds in the project, by itself."""
    words = ["--no-fix", "--no-fix-only", "--ignore-noqa", "--no-cache"]
    done = subprocess.run(
        [
            *(find_ruff_bin(), "check", *words, "--no-force-exclude"),
            *("--output-format", "json", *HOSTILE),
        ],
        cwd=project,
        capture_output=True,
    )
    found: dict[str, list[Violation]] = {name: [] for name in HOSTILE}
    for each in json.loads(done.stdout):
        at = each["location"]
        found[os.path.relpath(each["filename"], project)].append(
            Violation(at["row"], at["column"], each["code"], each["message"])
        )
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_every_finding_is_the_commands(
    name: str,
    project: Path,
    verdicts: dict[str, Verdict],
    command: dict[str, list[Violation]],
) -> None:
    assert [*verdicts[name].violations] == sorted(command[name])
    assert (project / name).read_bytes() == HOSTILE[name]  # never fixed


def test_the_hostile_files_are_not_clean(verdicts: dict[str, Verdict]) -> None:
    clean = [name for name, verdict in verdicts.items() if verdict.compliant]
    assert clean == ["empty.py", "blank.py"]
    unread = {n: v.reason for n, v in verdicts.items() if not v.parsed}
    assert [*unread] == [
        *("broken.py", "broken_and_more.py", "indent.py", "new.py"),
        "nul.py",
    ]
    # A name of ignored files, and what noqa hides from the command.
    assert [v.code for v in verdicts["tests/t.py"].violations] == [
        *("I001", "INP001", "E703")
    ]
    assert [v.code for v in verdicts["a.py"].violations] == ["F401", "F401"]


def test_what_stands_beside_a_file_is_looked_at_each_time(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "ruff.toml").write_text('lint.select = ["INP"]\n')
    file = tmp_path / "lib/x.py"
    file.parent.mkdir()
    file.write_text("x = 1\n")
    config = JudgeConfig(
        engine="ruff", config=str(tmp_path / "ruff.toml"), ignore=(), select=()
    )
    judge = Judge(config)
    source = [Source(b"x = 1\n", str(file))]
    (first,) = judge.judge_files(source)
    assert [v.code for v in first.violations] == ["INP001"]
    (file.parent / "__init__.py").touch()
    (second,) = judge.judge_files(source)
    assert second.compliant


def test_a_configuration_may_exclude_itself(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text(
        'force-exclude = true\nexclude = ["*.toml"]\n'
    )
    (verdict,) = of(tmp_path, "ruff.toml").verdicts(["import os\n"])
    assert [v.code for v in verdict.violations] == ["F401"]


def test_sources_without_a_file_have_no_name(project: Path) -> None:
    judge = of(project, "tests/../pyproject.toml")
    sources = ["import os\n", "x = 1\n", "import os\n"]
    assert [v.compliant for v in judge.verdicts(sources)] == [
        *(False, True, False)
    ]


@pytest.mark.parametrize("name", ["\ud800.py", "a\nb.py", "x" * 300])
def test_a_name_that_no_file_can_have_is_none(
    name: str, project: Path
) -> None:
    (verdict,) = of(project).judge_files([Source(b"import os\n", name)])
    assert [v.code for v in verdict.violations] == ["F401"]


def test_a_source_that_ends_ruff_takes_no_other_along(project: Path) -> None:
    deep = "x = " + "-" * 200_000 + "1\n"  # overflows ruff's stack
    sources = ["import os\n", deep, *["y = 1;\n"] * 40]
    first, second, *others = of(project).verdicts(sources)
    assert [v.code for v in first.violations] == ["F401"]
    assert second == Verdict((), False, "ruff crashed: killed by SIGABRT")
    assert {v.violations[0].code for v in others} == {"E703"}


def test_a_source_that_is_not_utf8_is_not_parsed(project: Path) -> None:
    """Though it says what it is: ruff reads UTF-8 alone."""
    source = b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"
    (verdict,) = of(project).verdicts([source])
    said = "ruff failed: Cause: stream did not contain valid UTF-8"
    assert verdict == Verdict((), False, said)


def test_a_source_that_takes_too_long_is_not_parsed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "TIME_LIMIT", 1e-4)
    (verdict,) = of(project).verdicts(["x = 1\n"])
    assert verdict.reason == "ruff was not done within 0.0001 s"


REFUSED = [
    ("pyproject.toml", "[tool.black]\n", "with a .tool.ruff. section"),
    ("ruff.toml", "", "that sets something"),
    ("ruff.toml", "line-length = \n", "cannot be read: Invalid value"),
    ("ruff.toml", "line-lenght = 79\n", "unknown field `line-lenght`"),
    ("ruff.toml", 'lint.select = ["E121"]\n', "Unknown rule selector `E121`"),
    ("ruff.toml", "lint.select = []\n", "selects none: select some"),
    ("ruff.toml", 'required-version = ">99"\n', "Required version"),
    ("ruff.toml", 'extend = "gone.toml"\n', "gone.toml"),
]


@pytest.mark.parametrize(("name", "text", "said"), REFUSED)
def test_a_configuration_that_cannot_judge_is_refused(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        of(tmp_path, name)
    assert str(refused.value).startswith("judge.config must ")
    assert "\n" not in str(refused.value)


def test_a_configuration_must_be_named_and_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must name a pyproject.toml"):
        JudgeConfig(engine="ruff")
    with pytest.raises(ConfigError, match="judge.plugins none"):
        JudgeConfig(
            engine="ruff", config="ruff.toml", plugins=("pep8-naming",)
        )
    with pytest.raises(ConfigError, match="No such file"):
        of(tmp_path, "ruff.toml")


def test_the_identity_is_what_ruff_makes_of_the_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "base.toml").write_text("line-length = 70\n")
    rules = 'extend = "base.toml"\nlint.select = ["E"]\n'
    first = written(one, rules)
    before = first.identity
    # The folder is no part of it, nor how the file is laid out.
    assert written(two, f"# words\n{rules}").identity == before
    assert first.width == 70
    # What the file extends is.
    (one / "base.toml").write_text("line-length = 71\n")
    assert written(one, rules).identity != before
    # Rules by a file's name are relative to the folder.
    before = written(two, rules).identity
    rules += 'lint.per-file-ignores = {"tests/*" = ["E501"]}\n'
    assert written(two, rules).identity != before


def test_columns_are_counted_as_offset_takes_them() -> None:
    # é takes two bytes: ruff's N806 at character 8 is flake8's at byte 9,
    # the 7th and 8th after it; E702 and a syntax error stay.
    text = "é = 1; aB = 2\n"
    found = [
        Violation(1, 6, "E702", ""),
        Violation(1, 6, "invalid-syntax", ""),
        Violation(1, 8, "N806", ""),
    ]
    counted = count_as_flake8(text.encode(), Verdict(tuple(found)))
    assert [v.col for v in counted.violations] == [6, 6, 9]
    assert [offset(text, v) for v in counted.violations] == [5, 5, 7]
    plain = Verdict((Violation(1, 8, "N806", ""),))
    assert count_as_flake8(b"a = 1; aB = 2\n", plain) is plain


FILE = '''import os


class Thing:
    """Text."""

    def name(self, é):
        """Text."""
        return é


def last():
    return os
'''


def test_a_completion_is_judged_in_its_file(tmp_path: Path) -> None:
    judge = written(
        tmp_path,
        'lint.select = ["E", "F", "N", "W", "ARG", "EXE", "D"]\n'
        'lint.ignore = ["D1", "D203", "D213"]\n',
    )
    lines = FILE.split("\n")
    function = 'def name(self, é):\n    """Text."""\n    return é\n'
    head = 'def name(self, é):\n    """Text."""\n'
    place = Place(File(lines, "thing.py"), 7, function, head)

    def charged(body: str) -> list[tuple[int, int, str]]:
        (verdict,) = judge.in_place([(place, head, body)])
        owned = attribute(head, True, verdict.violations).completion
        return [(v.row, v.col, v.code) for v in owned]

    assert charged("    return é\n") == []
    # `os` is the module's, and stays so.  Their columns count bytes,
    # as flake8's does: 4 blanks, é (2), comma and blank make 9.
    found = charged("    é, aB = os, é\n    return é\n")
    assert found == [(3, 9, "F841"), (3, 9, "N806")]
    # An argument that is not used is reported at the header.
    assert charged("    return os\n") == [(1, 16, "ARG002")]
    # Both of ruff's errors are found beyond the body's last row.
    assert charged("    return (é\n") == [(4, 1, "invalid-syntax")] * 2


def test_a_file_that_is_named_is_listed_though_it_is_excluded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration has force-exclude, and excludes the folder."""
    judge = of(project)
    assert judge.ruff
    monkeypatch.chdir(project / "no")
    named = [str(project / "a.py"), "excluded.py"]
    assert judge.ruff.list_files(named) == ["../a.py", "excluded.py"]
    whole = judge.ruff.list_files([".."])
    assert "../a.py" in whole and "excluded.py" not in whole
