"""A body judged where it stands: what flake8 says of the file, on its rows."""

import textwrap
from pathlib import Path

import pandas as pd
import pytest

from stylerl.config import FilterConfig, JudgeConfig
from stylerl.data import corpus, places
from stylerl.judge import Judge
from stylerl.judge.outcome import assess
from stylerl.judge.place import File, Place

ROOT = Path(__file__).resolve().parent.parent.parent
EVERY = JudgeConfig(select=("E", "W", "F"), ignore=("W503",))

FILE = textwrap.dedent("""\
    import json
    import os
    from typing import Any

    LIMIT = 10
    later: int


    class Outer:
        size = 1

        class Inner:
            def go(self, x):
                \"\"\"Go.\"\"\"
                return x

            def stop(self):
                return os.sep

    def plain(x):
        return json


    if LIMIT:
        def inside(x):
            return x
    """)
GO, PLAIN, INSIDE = "def go(self, x):", "def plain(x):", "def inside(x):"
# copy and re are used nowhere else; the class has a copy of its own.
BOX = textwrap.dedent("""\
    from copy import copy
    import json
    import os
    import re


    class Box:
        copy = 1

        def one(self, x):
            return json

        def two(self, x):
            return 2

        @property
        def three(self, x):
            return 3

        @three.setter
        def three(self, x):
            return 3


    if os:
        def four(x):
            return 4
    elif os.sep:
        def five(x):
            return 5
    else:
        import re

    try:
        with os:
            def six(x):
                return 6
    except OSError:
        pass
    """)
TWO, THREE = "def two(self, x):", "def three(self, x):"
FOUR, FIVE, SIX = "def four(x):", "def five(x):", "def six(x):"


def place(file: str, header: str, path: str = "m.py") -> tuple[str, Place]:
    """The prompt and the place of the function with a header."""
    config = FilterConfig(max_chars=9999)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "MIN_CHARS", 1)
        found = corpus.extract(file.encode(), config)
    snippets = [s for s in found if isinstance(s, corpus.Snippet)]
    snippet = next(s for s in snippets if s.text.startswith(header))
    head = snippet.text[: snippet.body_start]
    around = File(file.split("\n"), path)
    return head, Place(around, snippet.line, snippet.text, head)


def each_a_file(cut: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Snippets that say where they are from, and their files: themselves."""
    names = [f"{number}.py" for number in range(len(cut))]
    found = cut.assign(distribution="all", path=names, line=1)
    looked = zip(["all"] * len(cut), names, cut["text"], strict=True)
    return found, pd.DataFrame(looked, columns=places.COLUMNS)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(EVERY)


LONG = "x = " + "1" * 64  # 68 characters; 12 before it make 80
# header, body, (row, column, code) as of prompt and body alone
CASES = {
    "a name of the module": (PLAIN, "return LIMIT, x", []),
    "a name of nowhere": (PLAIN, "return nothing", [(2, 12, "F821")]),
    "annotated, never bound": (PLAIN, "return later", [(2, 12, "F821")]),
    "not one of the class": (GO, "return size", [(3, 12, "F821")]),
    # 8 + 4 columns of the file's and 68 are 80: one more than 79
    "its own indentation": (GO, f"{LONG}\n    return x", [(3, 72, "E501")]),
    "as wide as may be": (GO, f"{LONG[:-1]}\n    return x", []),
    "the module's, of that width": (PLAIN, f"{LONG}\n    return x", []),
    "never used": (GO, "y = 1", [(3, 5, "F841")]),
    # used nowhere else: the loop hides the import
    "hides an import": (
        PLAIN,
        "for json in x:\n        pass",
        [(2, 9, "F402")],
    ),
    "nested": (
        GO,
        "y = 1\n    def f():\n        return y\n    return f",
        [(4, 5, "E306")],
    ),
    # rows 3 and 4 are blank, and so is the file's own
    "blank at its end": (PLAIN, "return x\n\n", [(5, 1, "E303")]),
    # a row ends there for Python, and the next one is moved right as well
    "a carriage return": (GO, "x += 1\r    return nothing", [(4, 12, "F821")]),
    "a form feed": (
        GO,
        "x += 1\n\f    return x",
        [(4, 6, "E111"), (4, 6, "E113")],
    ),
    "in a condition": (INSIDE, "return nothing", [(2, 12, "F821")]),
    "unparsable": (PLAIN, "return (", [(2, 13, "E999")]),
    # the string swallows the file: an error, wherever it is reported
    "an open string": (GO, 'y = """', [(3, 10, "E999")]),
    "an open block": (PLAIN, "if x:", [(3, 1, "E999")]),
    # and reads a name of nowhere
    "runs on": (
        PLAIN,
        "return x\nnothing()",
        [(3, 1, "E305"), (3, 1, "F821")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_charged_is_what_stands_on_the_bodys_rows(
    case: str, judge: Judge
) -> None:
    header, body, expected = CASES[case]
    prompt, where = place(FILE, header)
    completion = f"\n    {body}\n"
    placed = where.put(completion)

    (verdict,) = map(placed.settle, judge.judge_files([placed.source]))

    charged = assess(prompt, True, verdict).violations
    assert [v[:3] for v in charged] == expected


# header, body, (row, column, code, words)
ANOTHER = "redefinition of unused 're' from another line"
BOXED = {
    "binds what another function uses": (TWO, "json = x\n    json()", []),
    "binds what none uses": (
        TWO,
        "re = x\n    re()",
        [(2, 5, "F811", ANOTHER)],
    ),
    "the class hides what it binds": (TWO, "copy = x\n    copy()", []),
    # only in a branch: there pyflakes lets a deletion be
    "deletes in an if": (FOUR, "del nothing", []),
    "deletes in an elif": (FIVE, "del nothing", []),
    "deletes in a with": (
        SIX,
        "del nothing",
        [(2, 9, "F821", "undefined name 'nothing'")],
    ),
    "a string at column 0": (TWO, 'return """a\nb"""', []),
    "a comment at column 0": (TWO, "x += 1\n# a\n    return x", []),
    "a row of its own is named": (
        TWO,
        "import sys\n    import sys\n    return sys",
        [(3, 5, "F811", "redefinition of unused 'sys' from line 2")],
    ),
}


@pytest.mark.parametrize("case", BOXED)
def test_the_file_has_what_a_body_depends_on(case: str, judge: Judge) -> None:
    header, body, expected = BOXED[case]
    prompt, where = place(BOX, header)
    placed = where.put(f"\n    {body}\n")
    (verdict,) = map(placed.settle, judge.judge_files([placed.source]))
    assert [*assess(prompt, True, verdict).violations] == expected


NESTED = textwrap.dedent("""\
    import os


    class Tabbed:
    \tdef seven(self, x):
    \t\treturn x


    def maker(y):
        import json

        def counted():
            global total
            total = json.dumps(y)

        @counted
        async def eight(x):
            return json, total

        return eight


    if os:
        def nine(x):
            return 9
    else:
        total = 0
    """)
SEVEN, NINE = "def seven(self, x):", "def nine(x):"
# file, header, body; what each asks of the file's other rows
LEFT_OUT = {
    "blank rows before a statement": (FILE, GO, "return x\n\n\n"),
    "blank rows before an else": (NESTED, NINE, "return x\n\n\n"),
    "blank rows at the file's end": (FILE, INSIDE, "return x\n\n\n"),
    "comments at its end": (FILE, PLAIN, "return x\n    # a\n# b"),
    "a name declared global": (FILE, PLAIN, "global LIMIT\n    LIMIT = 1"),
    "one that another declares": (NESTED, NINE, "return total"),
    "an import of another function": (NESTED, NINE, "json = 1"),
    "tabs": (NESTED, SEVEN, "if x:\n\t    return x"),
    "no bracket closes": (FILE, GO, "return (x"),
    "no string closes": (FILE, GO, 'return """x'),
    "a row that goes on": (FILE, PLAIN, "x = 1; \\"),
    "closes its function": (FILE, GO, "return x\n\nos = 1"),
    "begins a class": (FILE, PLAIN, "return x\n\n\nclass A: pass"),
    "a class of its own": (
        FILE,
        PLAIN,
        "class A:\n        x = 1\n        def f(self): pass\n    return A",
    ),
    "matches": (BOX, TWO, "match x:\n        case {**re}: pass"),
    "catches": (BOX, TWO, "try: x()\n    except OSError as re: pass"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_rows_left_out_would_change_nothing(case: str, judge: Judge) -> None:
    file, header, body = LEFT_OUT[case]
    _, where = place(file, header)
    placed = where.put(f"\n    {body}\n")
    whole = placed.source._replace(extent=None)
    verdicts = judge.judge_files([placed.source, whole])
    part, of_whole = map(placed.settle, verdicts)
    assert part == of_whole


def test_mccabe_knows_the_last_of_a_name(tmp_path: Path) -> None:
    style = tmp_path / "setup.cfg"
    style.write_text("[flake8]\nselect = C\nmax-complexity = 1\n")
    judge = Judge(JudgeConfig(config=str(style)))
    body = "\n    if x:\n        return 1\n    return 2\n"  # complexity 2
    # a later three is seen instead, and in an if the if is
    for header, codes in ((TWO, ["C901"]), (THREE, []), (FOUR, [])):
        prompt, where = place(BOX, header)
        (verdict,) = judge.in_place([(where, prompt, body)])
        assert [v.code for v in verdict.violations] == codes


def test_the_first_indented_row_may_be_the_bodys(judge: Judge) -> None:
    """Then it says which character indents the file: no E101 for a tab."""
    prompt, where = place("def f(x):\n    return x\n", "def f")
    (verdict,) = judge.in_place([(where, prompt, "\n\treturn x\n")])
    assert [v.code for v in verdict.violations] == ["W191"]


def test_the_last_functions_end_is_the_files(judge: Judge) -> None:
    file = "def f(x):\n    return x\n"
    prompt, where = place(file, "def f")
    items = [(where, prompt, f"\n    return 1{end}") for end in ("", "\n")]
    items.append((where, prompt, "\n    return 1\r\n"))
    items.append((where, prompt, "\n    return 1\n\n"))
    found = [
        [v.code for v in each.violations] for each in judge.in_place(items)
    ]
    assert found == [[], [], [], ["W391"]]


def test_ignored_by_its_files_name(tmp_path: Path) -> None:
    style = tmp_path / "setup.cfg"
    style.write_text(f"[flake8]\nper-file-ignores = {tmp_path}/tests/*:F841\n")
    judge = Judge(JudgeConfig(config=str(style)))
    for path, codes in (("tests/a.py", []), ("src/a.py", ["F841"])):
        file = f"{tmp_path}/{path}"
        prompt, where = place(FILE, PLAIN, file)
        item = (where, prompt, "\n    y = 1\n")
        (verdict,) = judge.in_place([item])
        assert [v.code for v in verdict.violations] == codes


def test_a_plugin_sees_the_whole_file() -> None:
    pytest.importorskip("pep8ext_naming")
    file = "class A:\n    def __init__(self):\n        self.x = 1\n"
    judge = Judge(
        JudgeConfig(select=("N",), ignore=(), plugins=("pep8-naming",))
    )
    prompt, where = place(file, "def __init__")
    body = "\n    self.x = 1\n"
    alone = judge.verdict(prompt + body)
    (placed,) = judge.in_place([(where, prompt, body)])
    assert [v.code for v in alone.violations] == ["N807"]
    assert placed.violations == ()


def test_places_by_id_and_by_prompt(tmp_path: Path) -> None:
    heads = ["def f(x):\n", "def f(x):\n", "def g(x):"]
    bodies = ["    return x\n", "    return 1\n", "\n    return f(x)\n"]
    cut = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "source_id": ["a", "b", "c"],
            "text": [h + b for h, b in zip(heads, bodies, strict=True)],
            "body_start": [len(head) for head in heads],
            "compliant": [True, False, False],
        }
    )
    cut, files = each_a_file(cut)
    files.to_parquet(tmp_path / "files.parquet")

    by_id = places.places(tmp_path / "files.parquet", cut)
    cut.to_parquet(tmp_path / "snippets.parquet")
    by_prompt = places.places_of_labels(tmp_path, cut)

    # the first of a prompt that SFT has not read
    assert {prompt: place.file for prompt, place in by_prompt.items()} == {
        heads[0]: by_id["b"].file,
        heads[2]: by_id["c"].file,
    }
    for head, body, name in zip(heads, bodies, "abc", strict=True):
        placed = by_id[name].put(body)
        assert placed.source.content.decode().endswith(head + body)
    assert by_id["a"].file.known == {"f"}


def test_a_text_has_unix_line_ends_and_no_mark() -> None:
    content = "# coding: latin-1\nx = 'é'\n"
    assert places.decode(content.encode("latin-1"))[1] == "iso-8859-1"
    text = "\ufeffx = 'é'\r\n".encode()
    assert places.decode(text) == ("x = 'é'\n", "utf-8-sig")


def test_known_names() -> None:
    _, where = place(FILE, PLAIN)
    assert where.file.known == {
        *("json", "os", "Any", "LIMIT", "later", "Outer", "plain", "inside")
    }
    star = "from os import *\n\n\n" + FILE
    assert place(star, PLAIN)[1].file.known is None
