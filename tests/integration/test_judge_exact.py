"""Judge against the flake8 command: row, column, code and words.

The command runs once over a folder of files, noqa disabled, and every
finding must be the judge's.  A file that crashes the command, which takes
the whole run with it, must be one that the judge says crashes flake8; each
of those is then given to a command of its own.
"""

import ast
import random
import subprocess
import sys
import sysconfig
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import flake8.main.cli
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stylerl.config import FilterConfig, JudgeConfig
from stylerl.corrupt import corrupt_style
from stylerl.data import corpus
from stylerl.judge import Judge, Source, Violation
from stylerl.judge.engine import arguments
from stylerl.judge.place import File, Place

COMMAND = Path(sys.executable).with_name("flake8")
PLUGINS = ("pep8-naming", "flake8-bugbear")  # installed beside flake8
# flake8's own main() where these are not: bugbear crashes on some sources
# that flake8 alone can read, and no option leaves an installed plugin out.
BARE = f"""
import importlib.metadata, sys
every = importlib.metadata.distributions
importlib.metadata.distributions = lambda: (
    found for found in every() if found.metadata["Name"] not in {PLUGINS}
)
from flake8.main.cli import main
sys.exit(main(sys.argv[1:]))
"""
EVERYTHING = JudgeConfig(select=("E", "W", "F", "C"), ignore=())
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
INSTALLED = Path(sysconfig.get_path("purelib"))

SNIPPETS = [
    b'def add(a, b):\n    """Return the sum."""\n    return a + b\n',
    b"import os, sys\n\n\nclass A(object):\n    x = [1,2 , 3]\n\n\n\n"
    b"    def f(self, x = 1, *args, **kwargs)->int:\n"
    b"        if x == None and not x in args:\n            return lambda: 0\n"
    b"        else :\n            l = {'a':1, 'b' : 2}\n        return l\n",
    b"from os.path import *\n\n__all__ = ['a', 'b']\n\n\n"
    b"def g(x: 'List[int]') -> None:\n    '''Doc.\n\n    text \n    '''\n"
    b"    global y; y = '%s %d' % (x,)\n    print('{} {1}'.format(x))\n"
    b"    try:\n        pass\n    except:\n        raise\n",
    b"async def h(a):\n\tasync with a as b, c:\n\t\tawait b\n"
    b"\tresult = some_function(a,\n\t  b,\n\t\t\tc)\n\treturn (\n\t\ta\n\t)\n",
    b"x = f\"{a!r:>{width}} {b}\" + rf'\\d{c}'\ny = x[1 :2] if x else(3)\n"
    b"z = (a and\n     b\n     or c)\nwith open(x) as f: print(f, file = z)\n",
    b"match point:\n    case {'x': x, **rest} if x>0:\n        pass\n"
    b"    case [1, _] | (2,):\n        pass\n",
    "def größe(名前):\n    é = '日本語'  ;ü = é\n    return 名前+ü\n".encode(),
]

INSERTIONS = [
    *(
        bytes([byte])
        for byte in b"\t \x0c\r\n\\'\"()[]{}#;:,@$?!\0\xff\x1a\x0b"
    ),
    b"\r\n",
    b"\n\n\n",
    b"\\\n",
    b"\\\r\n",
    b'"""',
    b"'''",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    "é".encode(),
    "\u2028".encode(),
    "\x85".encode(),
    "\u3000".encode(),
    b"\x1c",
    b"# noqa\n",
    b"# flake8: noqa\n",
    b"#: E501\n",
    b"# -*- coding: latin-1 -*-\n",
    b"# coding: ascii\n",
    b"# coding: utf-16\n",
    b"# coding: utf-8-sig\n",
    b"# coding: no-such\n",
    b"from __future__ import annotations\n",
    b" = ",
    b"==None",
    b"yield ",
    b"await ",
    b":=",
    b"->",
    b"**",
    b"0777",
    b"1_",
    b"if x :\n",
    b"else:",
    b"\\N{DASH}",
    b" " * 80,
    b"\t    ",
]

NASTY = [
    b"",
    b"\n",
    b" ",
    b"\t",
    b"\f",
    b"\r",
    b"\r\n",
    b"\0",
    b"\\",
    b"\\\n",
    b"x",
    b"#",
    b'"""',
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbfx=1\n",
    b"\xef\xbb\xbf\xef\xbb\xbfx=1\n",
    b"\xef\xbb\xbf# coding: latin-1\nx=1 \n",
    b"\xff\xfex\0",
    b"# coding: utf-16\nx=1\n",
    b"# coding: rot13\nk=1\n",  # crashes flake8
    b"# coding: undefined\nx\n",
    b"# coding: idna\nx=1\n",
    b"# coding: unicode_escape\nx='\\u1234' \n",
    b"# coding: utf-7\nx=1\n",
    b"# coding: utf-8\n\xff=1\n",
    b"# coding: latin-1\n\xe9=1\n",
    b"\n# coding: latin-1\nx='\xe9' \n",
    b"\n\n# coding: latin-1\nx='\xe9' \n",
    b"x = 1\x0c\n",
    b"def f():\n\x0c    pass\n",
    b"x=1\r\ry=2\r\n",
    b"x = '''\r\n a \r'''\r",
    b"x = 1 \\\n",
    b"x = 1\\",
    b"\\\n\\\n\\\n",
    b"x = 1 \x1c\ny\n",
    b"a\x0bb\n",
    "a\u2028b = 1\u3000\n".encode(),
    b"a=1\n\x1a",
    b"print 'a'\n",
    b"`a` <> 0777\n",
    b"return 1\nyield\nbreak\n",
    b"from os import open, exit, copyright, abs\n",
    b"def f(a, a): pass\n",
    b"x: 'List[' = 1\n",
    b"type X = int\n",
    b"def f[T](x): pass\n",
    b"f'{a!x}'\n",
    b'f"{"a"}"\n',
    b"try: pass\nexcept* E: pass\n",
    b"a" * 100_000,
    b"x = '" + b"a" * 100_000 + b"'\n",
    b"x = 1" + b" " * 20_000 + b"\n",
    b"x=1;\n" * 200,
    b"(" * 10_000,
    b"x = " + b"[" * 199 + b"]" * 199 + b"\n",
    b"x = " + b"[" * 201 + b"]" * 201 + b"\n",
    b"".join(b" " * i + b"if x:\n" for i in range(99)) + b" " * 99 + b"pass\n",
    b"".join(b" " * i + b"if x:\n" for i in range(101)) + b" " * 101 + b"y\n",
    # At some length each of these is too deep for pyflakes, and it must be
    # at the same length for both.
    *(b"x = " + b"-" * depth + b"1\n" for depth in range(315, 330)),
    *(b"f" + b".a" * depth + b"\n" for depth in range(315, 330)),
    b"x = " + b"a + " * 5_000 + b"a\n",
]


def run_command(folder: Path, names: list[str], config: JudgeConfig) -> str:
    """What the flake8 command prints; its complaints too."""
    bare = [sys.executable, "-c", BARE]
    done = subprocess.run(
        [
            *([str(COMMAND)] if config.plugins else bare),
            *arguments(config),
            "--format=%(path)s\t%(row)d\t%(col)d\t%(code)s\t%(text)s",
            "-j1",  # a file's depth on the stack is one process's
            *names,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    return done.stdout + done.stderr


def findings(output: str) -> dict[str, list[Violation]]:
    """The command's findings by file."""
    found = defaultdict(list)
    for line in output.splitlines():
        name, *rest = line.split("\t", 4)
        if len(rest) == 4:
            row, col, code, text = rest
            found[name].append(Violation(int(row), int(col), code, text))
    return found


def assert_equal(
    folder: Path, sources: list[bytes], config: JudgeConfig = EVERYTHING
) -> None:
    """Judge and command agree on every source."""
    names = [f"f{number:05}.py" for number in range(len(sources))]
    for name, source in zip(names, sources, strict=True):
        (folder / name).write_bytes(source)
    files = map(Source, sources, names)
    verdicts = list(Judge(config).judge_files(files))
    crashes = {
        name
        for name, verdict in zip(names, verdicts, strict=True)
        if (verdict.reason or "").startswith("flake8")
    }
    sound = [name for name in names if name not in crashes]
    expected = findings(run_command(folder, sound, config))
    for name, verdict in zip(names, verdicts, strict=True):
        if name in crashes:
            output = run_command(folder, [name], config)
            assert "Traceback" in output or "failed during" in output
        else:
            assert list(verdict.violations) == sorted(expected[name]), (
                folder / name
            ).read_bytes()


def mutate(source: bytes, rng: random.Random) -> bytes:
    """One random edit of the kind that breaks tools."""
    place, other = rng.randint(0, len(source)), rng.randint(0, len(source))
    insertion = rng.choice(INSERTIONS)
    return rng.choice(
        [
            source[:place] + insertion + source[place:],
            insertion + source,
            source + insertion,
            source[:place] + source[place + rng.choice([1, 1, 2, 8]) :],
            source[:place],
            source[place:],
            source.replace(b"\n", rng.choice([b"\r\n", b"\r", b" \n"]), 2),
            source.replace(b"    ", rng.choice([b"\t", b"  ", b"\x0c "]), 2),
            source[:place] + source[other : other + 40] + source[place:],
            source.replace(rng.choice([b"(", b")", b",", b" ", b"'"]), b"", 1),
        ]
    )


def test_nasty_sources(tmp_path: Path) -> None:
    assert_equal(tmp_path, NASTY)


@pytest.mark.parametrize("config", [JudgeConfig(), EVERYTHING])
def test_mutations(tmp_path: Path, config: JudgeConfig) -> None:
    rng = random.Random(171)
    sources = []
    for _ in range(1500):
        source = rng.choice(SNIPPETS)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            source = mutate(source, rng)
        sources.append(source)
    if sys.version_info >= (3, 12):
        # There tokenize raises SystemError on a NUL, at which the command
        # breaks off; the judge reads no tokens for `# noqa`, and says E999.
        sources = [source for source in sources if b"\0" not in source]
    assert_equal(tmp_path, sources, config)


def sample(folder: Path, count: int) -> list[bytes]:
    """Some of the Python files below a folder, the same ones each time."""
    paths = [
        path
        for path in sorted(folder.rglob("*.py"))
        if path.stat().st_size < 40_000
    ]
    chosen = random.Random(0).sample(paths, min(len(paths), count))
    return [path.read_bytes() for path in chosen]


@pytest.mark.slow
def test_the_interpreters_own_tests(tmp_path: Path) -> None:
    """Lib/test: odd syntax, every encoding, the bad_coding files."""
    folder = STANDARD_LIBRARY / "test"
    if not folder.exists():  # some distributions leave it out
        folder = STANDARD_LIBRARY
    bad = [path.read_bytes() for path in sorted(folder.rglob("*bad*.py"))]
    assert_equal(tmp_path, sample(folder, 150) + bad)


@pytest.mark.slow
def test_installed_sources(tmp_path: Path) -> None:
    assert_equal(tmp_path, sample(INSTALLED, 250))


@pytest.mark.slow
def test_plugins(tmp_path: Path) -> None:
    """pep8-naming and flake8-bugbear, where they are installed."""
    config = JudgeConfig(
        select=("E", "W", "F", "N", "B"),
        ignore=(),
        plugins=("pep8-naming", "flake8-bugbear"),
    )
    assert_equal(tmp_path, [b"", *SNIPPETS, *sample(INSTALLED, 60)], config)


@st.composite
def edited(draw: st.DrawFn) -> bytes:
    """A snippet with a few edits, which hypothesis can take back singly."""
    source = draw(st.sampled_from(SNIPPETS))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(source)))
        end = draw(st.integers(start, min(start + 30, len(source))))
        new = draw(st.sampled_from([b"", *INSERTIONS]) | st.binary(max_size=3))
        source = source[:start] + new + source[end:]
    return source


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(source=edited())
@example(source=b"b\n")
def test_any_edit(
    source: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command's own main(), in this process, on one file a time."""
    path = tmp_path / "edited.py"
    path.write_bytes(source)
    style = "--format=x\t%(row)d\t%(col)d\t%(code)s\t%(text)s"
    verdict = Judge(EVERYTHING).verdict(source)
    try:
        flake8.main.cli.main([*arguments(EVERYTHING), style, str(path)])
    except IndexError as error:  # pycodestyle's, of a line that is `b` or `u`
        assert verdict.reason == f"flake8 failed: IndexError: {error}"
        return
    expected = sorted(findings(capfd.readouterr().out)["x"])
    assert list(verdict.violations) == expected


def test_the_mutations_are_not_all_of_one_kind() -> None:
    rng = random.Random(0)
    parsed = 0
    for _ in range(300):
        try:
            ast.parse(mutate(rng.choice(SNIPPETS), rng))
        except (SyntaxError, ValueError):
            continue
        parsed += 1
    assert 60 < parsed < 240


def test_bodies_in_their_files(tmp_path: Path) -> None:
    """Functions of the standard library with bodies of their own, corrupted
    ones and each other's: the command reads the whole file, spliced here,
    and what it finds on the body's rows is the judge's of the body."""
    config = JudgeConfig(select=("E", "W", "F"), ignore=())
    rng = random.Random(29)
    functions = list(library_functions(rng, files=60))
    bodies = [cut.text[cut.body_start :] for _, cut in functions]
    cases = [
        (place, cut, body)
        for (place, cut), own in zip(functions, bodies, strict=True)
        for body in (
            own,
            corrupt_style(cut.text, cut.body_start, rng)[0][cut.body_start :],
            rng.choice(bodies),
        )
        if not any(row.isspace() or not row for row in body.split("\n")[1:-1])
    ]
    prompts = [cut.text[: cut.body_start] for _, cut, _ in cases]
    places = {
        prompt: place
        for prompt, (place, _, _) in zip(prompts, cases, strict=True)
    }
    judge = Judge(config, places=places)
    verdicts = judge.completions(prompts, [body for *_, body in cases])
    names = [f"f{number:05}.py" for number in range(len(cases))]
    for name, (place, cut, body) in zip(names, cases, strict=True):
        (tmp_path / name).write_text(
            spliced(place, cut, body), encoding="utf-8"
        )
    expected = findings(run_command(tmp_path, names, config))
    found = 0
    for name, (place, cut, body), prompt, verdict in zip(
        names, cases, prompts, verdicts, strict=True
    ):
        own = range(prompt.count("\n") + 2, (prompt + body).count("\n") + 1)
        shift, indent = cut.line - 1, len(place.indent)
        of_file = sorted(
            (row - shift, col - indent, code)
            for row, col, code, _ in expected[name]
            if row - shift in own
        )
        of_body = [v[:3] for v in verdict.violations if v.row in own]
        assert of_body == of_file, (tmp_path / name).read_text()
        found += len(of_file)
    assert len(cases) > 100 and found > 100


def library_functions(
    rng: random.Random, files: int
) -> Iterator[tuple[Place, corpus.Snippet]]:
    """Functions of small modules, each with a header of its own."""
    seen = set()
    modules = [
        path
        for path in sorted(STANDARD_LIBRARY.glob("*.py"))
        if path.stat().st_size < 20_000
    ]
    for path in rng.sample(modules, files):
        text = path.read_text(encoding="utf-8")
        file = File(text.split("\n"), path.name)
        pieces = corpus.extract(text.encode(), FilterConfig())
        cuts = [cut for cut in pieces if isinstance(cut, corpus.Snippet)]
        for cut in cuts[:2]:
            head = cut.text[: cut.body_start]
            place = Place(file, cut.line, cut.text, head)
            if head not in seen and spliced(place, cut) == text:
                seen.add(head)
                yield place, cut


def spliced(place: Place, cut: corpus.Snippet, body: str | None = None) -> str:
    """The file's text with a body in the place of the function's own."""
    first = cut.line - 1
    after = place.file.lines[first + cut.text.count("\n") :]
    text = cut.text
    if body is not None:
        text = cut.text[: cut.body_start] + body
    rows = textwrap.indent(text, place.indent).removesuffix("\n").split("\n")
    return "\n".join([*place.file.lines[:first], *rows, *after])
