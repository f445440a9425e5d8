"""The judge's own promises; test_judge_exact.py holds it against flake8."""

import gc
import itertools
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import alive, run_python, wait_for

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError, StylerlError
from stylerl.judge import Judge, Verdict, Violation, pool, worker_process
from stylerl.judge.verdict import style_score

CLEAN = "def add(a, b):\n    return a + b\n"
# What Python calls a null byte: CPython's gh-96670 came with 3.11.4.
LATER = sys.version_info >= (3, 11, 4)
NULL_BYTE = "E999 SyntaxError" if LATER else "flake8 failed: ValueError"

# A plugin that does to flake8 what no source of ours should be able to do.
PLUGIN = """
import os, signal

class Rules:
    name = "house-rules"
    version = "1.0"

    def __init__(self, tree, lines, filename):
        self.lines = lines or open(filename).readlines()

    def run(self):
        for row, line in enumerate(self.lines, start=1):
            if "HANG" in line:
                while True:
                    pass
            if "SEGFAULT" in line:
                os.kill(os.getpid(), signal.SIGSEGV)
            if "RAISE" in line:
                raise ValueError("a plugin's bug\\nand more about it")
            if "PRINT" in line:
                print("noise on stdout", flush=True)
            if "MEMORY" in line:
                bytearray(2 ** 40)
            if "SHOUT" in line:
                yield row, line.index("SHOUT"), "HSE100 too loud", Rules
"""


@pytest.fixture
def house_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An installed flake8 plugin, `house-rules`, in a folder of its own."""
    folder = tmp_path / "installed"
    info = folder / "house_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "houserules.py").write_text(PLUGIN)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: house-rules\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(
        "[flake8.extension]\nHSE = houserules:Rules\n"
    )
    monkeypatch.syspath_prepend(folder)
    yield folder


@pytest.fixture
def house_judge(house_rules: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A judge with the plugin, and little patience."""
    monkeypatch.setattr(worker_process, "TIME_LIMIT", 0.5)
    return Judge(
        JudgeConfig(select=("E", "W", "F", "HSE"), plugins=("house-rules",))
    )


# Rows and columns counted by hand, from 1; a column is that of the first
# character that is wrong, for E501 that of the first beyond the limit.
SPECIFICATION = [
    ("x=1\n", [(1, 2, "E225")]),
    ("x = [1,2]\n", [(1, 7, "E231")]),
    ("x = 1 \n", [(1, 6, "W291")]),
    ("x = 1", [(1, 6, "W292")]),
    ("x = 1\n\n", [(2, 1, "W391")]),
    ("def f():\n\treturn 1\n", [(2, 1, "W191")]),
    ("import os\n", [(1, 1, "F401")]),
    ("x = 1  # noqa\ny=2  # noqa\n", [(2, 2, "E225")]),
    ("# flake8: noqa\nx=1\n", [(2, 2, "E225")]),
    ("x = '" + "a" * 80 + "'\n", [(1, 80, "E501")]),
    ("x = 1; y = 2\n", [(1, 6, "E702")]),
    ("if print == None:\n    pass\n", [(1, 10, "E711")]),
    ("def f():\n    y = 1\n", [(2, 5, "F841")]),
    (CLEAN, []),
    ("", []),
    ("print(undefined)\n", [(1, 7, "F821")]),
    ("\ufeffx = 1\n", []),
    ("x = 1\r\ny = 2\r\n", []),
]


@pytest.mark.parametrize(("source", "expected"), SPECIFICATION)
def test_violations_are_flake8s(
    judge: Judge, source: str, expected: list[tuple[int, int, str]]
) -> None:
    verdict = judge.verdict(source)
    assert [violation[:3] for violation in verdict.violations] == expected
    assert verdict.parsed
    assert verdict.reason is None
    assert verdict.compliant == (not expected)


def test_text_and_bytes_are_the_same_file(judge: Judge) -> None:
    text = "name = 'é'  ;x=1\n"
    assert judge.verdict(text) == judge.verdict(text.encode())


def test_a_violation_carries_flake8s_words(judge: Judge) -> None:
    assert judge.verdict("x=1\n").violations == (
        Violation(1, 2, "E225", "missing whitespace around operator"),
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(:\n", "E999 SyntaxError: invalid syntax"),
        ("x = (1,\n", "E999 SyntaxError: '(' was never closed"),
        ("if x:\npass\n", "E999 IndentationError: expected an indented"),
        ("x = 1\0\n", f"{NULL_BYTE}: source code string cannot"),
        ("# coding: rot13\nk = 1\n", "flake8 failed: LookupError: 'rot13'"),
        ("x = " + "-" * 2000 + "1\n", "flake8 failed: RecursionError"),
    ],
)
def test_what_flake8_cannot_read_is_not_parsed(
    judge: Judge, source: str, reason: str
) -> None:
    verdict = judge.verdict(source)
    assert not verdict.parsed
    assert not verdict.compliant
    assert verdict.score == 0.0
    assert verdict.reason is not None
    assert verdict.reason.startswith(reason)


def test_a_syntax_error_counts_even_where_its_code_does_not() -> None:
    verdict = Judge(JudgeConfig(select=("W",))).verdict("def f(:\n")
    assert verdict.violations == ()
    assert not verdict.parsed


# max(0, 1 - n / 10)
@pytest.mark.parametrize(
    ("violations", "score"), [(0, 1.0), (1, 0.9), (10, 0.0), (25, 0.0)]
)
def test_style_score(violations: int, score: float) -> None:
    assert style_score(violations) == score
    found = (Violation(1, 1, "E225", ""),) * violations
    assert Verdict(found).score == score


def test_a_lone_surrogate_is_judged_as_bytes_that_are_not_utf8(
    judge: Judge,
) -> None:
    # U+D800 becomes ED A0 80, which flake8 then reads as Latin-1.
    verdict = judge.verdict("x = '\ud800'\n")
    assert verdict == judge.verdict(b"x = '\xed\xa0\x80'\n")


class TestMany:
    def test_order_is_kept_whatever_the_number_of_processes(
        self, judge: Judge
    ) -> None:
        # The i-th source has i % 7 violations, and long and short alternate.
        sources = [
            "x = 1\n" * (i % 3 * 20) + "y=1\n" * (i % 7) for i in range(300)
        ]
        for jobs in (1, 2, 3):
            counts = [
                len(v.violations) for v in judge.verdicts(sources, jobs=jobs)
            ]
            assert counts == [i % 7 for i in range(300)]

    def test_a_stream_is_read_only_as_far_as_needed(
        self, judge: Judge
    ) -> None:
        read = itertools.count()

        def endless() -> Iterator[str]:
            while True:
                yield f"x = {next(read)}\n"

        verdicts = judge.verdicts(endless(), jobs=2)
        assert all(v.compliant for v in itertools.islice(verdicts, 1000))
        verdicts.close()
        # 1000 wanted, and at most 256 ahead for each of two workers.
        assert 1000 <= next(read) <= 1000 + 2 * 256 + 2

    def test_calls_may_be_nested_and_abandoned(self, judge: Judge) -> None:
        outer = judge.verdicts(["x=1\n"] * 50, jobs=2)
        for verdict in outer:
            inner = next(iter(judge.verdicts(["y = 1 \n"] * 50, jobs=2)))
            assert verdict.violations[0].code == "E225"
            assert inner.violations[0].code == "W291"
            break
        assert judge.verdict(CLEAN).compliant

    def test_large_sources_do_not_block_the_pipe(self, judge: Judge) -> None:
        # Both directions exceed a socket's buffer: 1.2 MB of source, and
        # 4000 violations to report.
        large = "x=1\n" * 2000 + "#" + "a" * 1_200_000 + "\n"
        counts = [
            len(v.violations) for v in judge.verdicts([large] * 3, jobs=1)
        ]
        # E225 in 2000 rows, then E262-free comment: E265 and E501.
        assert counts == [2002] * 3

    def test_nothing_gives_nothing(self, judge: Judge) -> None:
        assert list(judge.verdicts([])) == []


class TestIsolation:
    def test_the_plugin_works_where_nothing_is_wrong(
        self, house_judge: Judge
    ) -> None:
        """It may print, and open the file of a source that is empty."""
        verdict = house_judge.verdict("x = 'SHOUT'\n")
        assert verdict.violations == (Violation(1, 6, "HSE100", "too loud"),)
        assert house_judge.verdict("").compliant
        assert house_judge.verdict("x = 'PRINT'\n").compliant

    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("HANG", "flake8 was not done within 0.5 s"),
            ("SEGFAULT", "flake8 crashed: killed by SIGSEGV"),
            ("RAISE", "flake8 failed: ValueError: a plugin's bug"),
            ("MEMORY", "flake8 failed: MemoryError: "),
        ],
    )
    def test_what_breaks_flake8_is_one_verdict(
        self, house_judge: Judge, word: str, reason: str
    ) -> None:
        sources = ["x = 1\n", "y=1\n", f"x = '{word}'\n", "y=2\n", "x = 3\n"]
        verdicts = list(house_judge.verdicts(sources, jobs=1))
        assert verdicts[2] == Verdict((), parsed=False, reason=reason)
        assert [len(v.violations) for v in verdicts] == [0, 1, 0, 1, 0]
        assert [v.parsed for v in verdicts] == [True, True, False, True, True]

    def test_work_goes_on_after_all_have_waited_for_one(
        self, house_judge: Judge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # One worker hangs at the first source, for half a second; the other
        # has long judged the two that may be read ahead.
        monkeypatch.setattr(pool, "READ_AHEAD", 1)
        sources = ["x = 'HANG'\n", *["x=1\n"] * 20]
        verdicts = house_judge.verdicts(sources, jobs=2)
        assert [v.parsed for v in verdicts] == [False, *[True] * 20]

    def test_a_worker_killed_midway_loses_nothing(self, judge: Judge) -> None:
        verdicts = judge.verdicts(["x=1\n"] * 400, jobs=2)
        seen = [next(verdicts)]
        workers = [
            child
            for child in psutil.Process().children()
            if any("judge/worker_main.py" in word for word in child.cmdline())
        ]
        assert workers
        for worker in workers:
            worker.kill()
        seen += verdicts
        assert [v.violations[0].code for v in seen] == ["E225"] * 400

    def test_workers_end_with_the_process(self) -> None:
        script = (
            "import os, psutil\n"
            "from stylerl.config import JudgeConfig\n"
            "from stylerl.judge import Judge\n"
            "assert Judge(JudgeConfig()).verdict('x=1\\n').violations\n"
            "(worker,) = psutil.Process().children()\n"
            "words = ' '.join(worker.cmdline())\n"
            "assert 'judge/worker_main.py' in words\n"
            "print(worker.pid, flush=True)\n"
            "os.kill(os.getpid(), 9)\n"
        )
        # No `if __name__ == '__main__'` guard, and SIGKILL at the end.
        done = run_python(script)
        assert done.returncode == -signal.SIGKILL, done.stderr
        wait_for(lambda: not alive(int(done.stdout)), 5)


class TestConfiguration:
    def test_the_working_directory_changes_nothing(
        self, house_rules: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (house_rules / "setup.cfg").write_text("[flake8]\nselect = W\n")
        (house_rules / "pycodestyle.py").write_text("raise SystemExit(9)\n")
        monkeypatch.chdir(house_rules)
        monkeypatch.setattr(
            sys, "path", ["", *(p for p in sys.path if p != str(house_rules))]
        )
        # A new width makes a new judge, whose worker starts here.  The
        # plugin lies here too, unnamed.
        judge = Judge(JudgeConfig(max_line_length=81))
        codes = [v.code for v in judge.verdict("x=1  # SHOUT\n").violations]
        assert codes == ["E225"]

    def test_an_installed_plugin_counts_only_if_named(
        self, house_rules: Path
    ) -> None:
        config = JudgeConfig(select=("E", "HSE"), max_line_length=82)
        assert Judge(config).verdict("x = 'SHOUT'\n").compliant

    def test_a_configuration_file_replaces_the_options(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "tox.ini"
        path.write_text(
            "[flake8]\nmax-line-length = 20\nextend-ignore = E225\n"
            "per-file-ignores =\n    test_*.py: E501\n"
        )
        judge = Judge(JudgeConfig(config=str(path)))
        source = "x=1\nyear = 1000 + 2000 + 3000\nprint(z)\n"
        # flake8's defaults again, so F821 counts; E501 from column 21.
        assert [v[:3] for v in judge.verdict(source).violations] == [
            (2, 21, "E501"),
            (3, 7, "F821"),
        ]
        named = judge.verdict(source, path="test_year.py")
        assert [v.code for v in named.violations] == ["F821"]

    def test_complexity_is_flake8s_own(self, tmp_path: Path) -> None:
        path = tmp_path / ".flake8"
        path.write_text("[flake8]\nmax-complexity = 1\n")
        source = "def f(x):\n    if x:\n        return 1\n    return 2\n"
        verdict = Judge(JudgeConfig(config=str(path))).verdict(source)
        # One branch, two paths: complexity 2.
        assert verdict.violations == (
            Violation(1, 1, "C901", "'f' is too complex (2)"),
        )

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("[mypy]\n", r"\[flake8\] section"),
            ("[flake8]\nignore = e501!\n", "does not match"),
            ("[flake8]\nmax-line-length = wide\n", "invalid literal"),
            ("[flake8]\nrequire-plugins = no-such\n", "not installed"),
            ("[flake8]\nrequire-plugins = pep8_naming\n", "add pep8-naming"),
            ("[flake8]\njobs = many\n", "'many' must be 'auto'"),
            ("[flake8]\nper-file-ignores = E501\n", "per-file-ignores"),
            ("flake8\n", "cannot be read"),
        ],
    )
    def test_a_bad_configuration_file_is_one_error(
        self, tmp_path: Path, content: str, words: str
    ) -> None:
        path = tmp_path / "setup.cfg"
        path.write_text(content)
        with pytest.raises(ConfigError, match=words):
            Judge(JudgeConfig(config=str(path))).verdict(CLEAN)

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"config": "nowhere.cfg"}, "nowhere.cfg cannot be read"),
            ({"plugins": ["no-such"]}, "pip install no-such"),
            ({"ignore": ["W", "e501"]}, "judge.ignore knows no "),
            ({"ignore": ["W", "E5011"]}, "judge.ignore knows no "),
            ({"ignore": ["W", ""]}, "judge.ignore knows no "),
            ({"ignore": ["E,W"]}, "judge.ignore knows no "),
            ({"ignore": ["*"]}, "judge.ignore knows no "),
        ],
    )
    def test_what_is_missing_or_no_rule_is_said_at_once(
        self, settings: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(ConfigError, match=words):
            Judge(JudgeConfig(**settings))


class TestIdentity:
    def test_it_tells_judges_apart(
        self, tmp_path: Path, house_rules: Path
    ) -> None:
        first, second = tmp_path / "a.cfg", tmp_path / "b.cfg"
        first.write_text("[flake8]\nmax-line-length = 88\n")
        second.write_text("[flake8]\nmax-line-length = 99\n")
        configs = [
            JudgeConfig(),
            JudgeConfig(select=("E",)),
            JudgeConfig(ignore=()),
            JudgeConfig(max_line_length=88),
            JudgeConfig(plugins=("house-rules",)),
            JudgeConfig(config=str(first)),
            JudgeConfig(config=str(second)),
        ]
        assert len({Judge(config).identity for config in configs}) == 7
        assert re.fullmatch("[0-9a-f]{16}", Judge(configs[0]).identity)
        before = Judge(configs[4]).identity
        with (house_rules / "houserules.py").open("a") as file:
            file.write("# edited where it is installed\n")
        assert Judge(configs[4]).identity != before

    def test_a_configuration_files_place_does_not_matter(
        self, tmp_path: Path
    ) -> None:
        identities = set()
        for name in ("here", "there"):
            path = tmp_path / name / "tox.ini"
            path.parent.mkdir()
            path.write_text("[tox]\n[flake8]\nselect = E\n")
            identities.add(Judge(JudgeConfig(config=str(path))).identity)
        assert len(identities) == 1


# A plugin of a configuration file, in a folder and a package of it.  Where a
# file `die` is, the worker ends at once.
LOCAL = {
    "tox.ini": """
[flake8]
Per-File-Ignores = sub/*: E225
[flake8:local-plugins]
extension = LOC = rules.loud:check
paths = ./tools
""",
    "tools/rules/loud.py": """
import importlib, os, sys
from rules.words import LOUD
MARK = importlib.import_module(".mark", __package__)

if os.path.exists("die"):
    os._exit(7)


def check(tree, lines):
    for row, line in enumerate(lines, start=1):
        if LOUD in line:
            yield row, 0, MARK.CODE + " " + " ".join(sorted(sys.modules)), None
""",
    "tools/rules/words/__init__.py": "from .loud import LOUD\n",
    "tools/rules/words/loud.py": "LOUD = 'SHOUT'\n",
    "tools/rules/mark.py": "CODE = 'LOC100'\n",
}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JudgeConfig:
    """A configuration with a plugin of its own, in the working directory."""
    for name, text in LOCAL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return JudgeConfig(config=str(tmp_path / "tox.ini"))


Change = Callable[[Path, pytest.MonkeyPatch], object]
# What is judged, what then changes, and the codes before and after.
CHANGES: dict[str, tuple[str, Change, list[list[str]]]] = {
    # sub/ is ignored below the working directory, and not below another.
    "folder": ("x=1\n", lambda p, m: m.chdir("/"), [[], ["E225"]]),
    "plugin": (
        "x = 'SHOUT'\n",
        lambda p, m: (p / "loud.py").write_text("def check(tree): return ()"),
        [["LOC100"], []],
    ),
    "what it imports": (
        "x = 'SHOUT'\n",
        lambda p, m: (p / "words/loud.py").write_text("LOUD = 'no'\n"),
        [["LOC100"], []],
    ),
    "what it imports by name": (
        "x = 'SHOUT'\n",
        lambda p, m: (p / "mark.py").write_text("CODE = 'LOC2'\n"),
        [["LOC100"], ["LOC2"]],
    ),
    "configuration": (
        "mine()\n",
        lambda p, m: (p / "../../tox.ini").write_text(
            "[flake8]\nbuiltins = mine\n"
        ),
        [["F821"], []],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_judge_sees_what_a_verdict_depends_on(
    local: JudgeConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    source, change, codes = CHANGES[name]
    path = str(tmp_path / "sub" / "a.py")
    before = [v.code for v in Judge(local).verdict(source, path).violations]
    change(tmp_path / "tools" / "rules", monkeypatch)
    after = [v.code for v in Judge(local).verdict(source, path).violations]
    assert [before, after] == codes


def test_a_worker_loads_flake8_and_nothing_large(local: JudgeConfig) -> None:
    (found,) = Judge(local).verdict("x = 'SHOUT'\n").violations
    loaded = set(found.text.split())
    assert {"flake8", "pycodestyle", "pyflakes", "rules.loud"} <= loaded
    large = {"torch", "pandas", "numpy", "yaml", "tqdm", "stylerl.config"}
    assert not loaded & large


def test_a_worker_that_cannot_start_is_one_clear_error(
    local: JudgeConfig,
) -> None:
    Path("die").touch()
    with pytest.raises(StylerlError, match="must start; it ended with code 7"):
        Judge(local).verdict("x = 1\n")


@pytest.mark.parametrize(
    ("config", "content", "words"),
    [
        (JudgeConfig(select=("ZZZ",)), "", "of ZZZ none"),
        (JudgeConfig(select=("N", "B")), "", "of N, B none"),
        (JudgeConfig(select=("C901",)), "", "of C901 none"),
        (JudgeConfig(select=()), "", "of no selection none"),
        (JudgeConfig(ignore=("E", "W", "F")), "", "of E, W, F none"),
        (JudgeConfig(config="tox.ini"), "select = N,B", "of N, B none"),
        (JudgeConfig(config="tox.ini"), "ignore = C,E,F,W", "selection none"),
        (JudgeConfig(config="tox.ini"), "select = W505", "of W505 none"),
    ],
)
def test_rules_that_find_nothing_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: JudgeConfig,
    content: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tox.ini").write_text(f"[flake8]\n{content}\n")
    with pytest.raises(ConfigError, match=f"{words} is left"):
        Judge(config).verdict(CLEAN)


def test_the_pool_is_shared_and_its_workers_reused() -> None:
    judge = Judge(JudgeConfig(max_line_length=83))
    judge.verdict(CLEAN)
    worker = pool.shared_pool(judge.config, judge.identity).acquire()
    pool.shared_pool(judge.config, judge.identity).release(worker)
    judge.verdict(CLEAN)
    again = pool.shared_pool(judge.config, judge.identity).acquire()
    assert again is worker
    worker.close()


def test_workers_of_old_configurations_end() -> None:
    first = Judge(JudgeConfig(max_line_length=90))
    first.verdict(CLEAN)
    shared = pool.shared_pool(first.config, first.identity)
    worker = shared.acquire()
    process = worker._process
    shared.release(worker)
    busy = first.verdicts(["x=1\n"] * 2, jobs=1)
    next(busy)
    del shared, worker
    for width in range(91, 94):
        Judge(JudgeConfig(max_line_length=width)).verdict(CLEAN)
    # It is still needed, and ends with the last who needs it.
    assert process.poll() is None
    assert len(list(busy)) == 1
    del busy
    gc.collect()
    assert process.wait(5) == 0
    assert not first.verdict("x=1\n").compliant


def test_equal_completions_are_judged_once(
    judge: Judge, judged: list[bytes]
) -> None:
    prompts = ["x=", "x=", "x = "]
    found = [*judge.completions(prompts, ["1\n"] * 3)]
    assert [v.compliant for v in found] == [False, False, True]
    assert judged == [b"x=1\n", b"x = 1\n"]
