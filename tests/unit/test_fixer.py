"""What the fixer makes of completions: of rows of their own alone."""

import subprocess

import pytest

from stylerl.config import JudgeConfig
from stylerl.errors import StylerlError
from stylerl.judge import Judge, fixer, ruff_engine
from stylerl.judge.place import File, Place

HEAD = "def f(a,b):"  # E231, and the prompt's own
DOCUMENTED = 'def f(a,b):\n    """Add."""\n'
LONG = "first_long_name, second_long_name, third_long_name, fourth_name"


def fixed(prompt, completion, **settings):
    judge = Judge(JudgeConfig(**settings))
    (found,) = fixer.fix([(None, prompt, completion)], judge)
    return found


@pytest.mark.parametrize(
    ("prompt", "completion", "expected"),
    [
        (HEAD, "\n    x=a\n    return x ;\n", "\n    x = a\n    return x\n"),
        (HEAD + "\n", "    return  a\n", "    return a\n"),
        (DOCUMENTED, "    return  a\n", "    return a\n"),
        # A lambda and a slice hold colons that end no header.
        ("def f(a=lambda: 0, b={1: 2}):", " return a\n", "\n    return a\n"),
        # What follows the function is fixed too, and is no other's body.
        (HEAD, "\n    return  c\n\n\ndef g(x):\n    return  x\n",
         "\n    return c\n\n\ndef g(x):\n    return x\n"),
        (HEAD, "\n    return  a\n\n\nprint( f )\n",
         "\n    return a\n\n\nprint(f)\n"),
        ('def f(a):\n\t"""Do."""', "\n\treturn a+1\n",
         "\n    return a + 1\n"),
        # A comment of the prompt's is not written twice; a model's is its own.
        ("def f(a):  # why", "\n    return  a\n", "\n    return a\n"),
        ("def f(a): #why\n", "    return  a\n", "    return a\n"),
        (DOCUMENTED[:-1] + "  # b", "\n    return  a\n", "\n    return a\n"),
        (HEAD, "  #c\n    return a\n", "  # c\n    return a\n"),
        # What the model documents itself is its own.
        (HEAD, '\n    "Add."\n    return a\n', '\n    "Add."\n    return a\n'),
        ("class A:", "\n    x=1\n", "\n    x = 1\n"),
        # A safe fix: an import that nothing reads.
        (HEAD, "\n    import os\n    return a\n", "\n    return a\n"),
        # Not a safe one: a name that nothing reads.
        (HEAD, "\n    x = a\n    return b\n", "\n    x = a\n    return b\n"),
        # Neither parses nor opens anything: as it was.
        (HEAD, "\n    return (\n", "\n    return (\n"),
        ("x = 1\n", "y=2\n", "y=2\n"),
    ],
)  # fmt: skip
def test_only_the_rows_after_the_prompt_change(prompt, completion, expected):
    assert fixed(prompt, completion) == expected


@pytest.mark.parametrize(
    ("step", "ignored", "kept"),
    [("  ", "E111", "  "), ("\t", "W191", "\t"), ("\t", "E111", "    ")],
)
def test_a_guides_own_indentation_stays(step, ignored, kept):
    body = f"\n{step}return  a\n"
    assert fixed(HEAD, body, ignore=(ignored,)) == f"\n{kept}return a\n"


def test_what_goes_on_in_the_docstrings_statement_stays():
    body = ' + "a"\n    return  b\n'
    assert fixed(DOCUMENTED[:-1], body) == body


def test_a_line_is_broken_at_the_judges_width():
    body = f"\n    return a({LONG})\n"  # 76 columns
    assert fixed(HEAD, body) == body
    assert fixed(HEAD, body, max_line_length=60).count("\n") == 7


def test_the_width_may_stand_in_a_configuration(tmp_path):
    (tmp_path / "tox.ini").write_text("[flake8]\nmax-line-length = 60\n")
    body = f"\n    return a({LONG})\n"  # 76 columns
    found = fixed(HEAD, body, config=str(tmp_path / "tox.ini"))
    assert found.count("\n") == 7


@pytest.mark.parametrize(
    "files",
    ['include = ["src/*.py"]', 'exclude = ["*"]\nforce-exclude = true'],
)
def test_the_fixer_mends_whatever_a_configuration_includes(tmp_path, files):
    (tmp_path / "ruff.toml").write_text(f'{files}\nlint.select = ["E"]\n')
    config = str(tmp_path / "ruff.toml")
    found = fixed(HEAD, "\n    return  a\n", engine="ruff", config=config)
    assert found == "\n    return a\n"


@pytest.mark.parametrize("sign", ["\x0c", "\x1c", "\x85", "\u2028"])
def test_a_line_ends_where_it_does_for_python(sign):
    prompt = f'def f(a):\n    """Say.\n\n    © {sign} b.\n    """\n'
    assert fixed(prompt, "    return  a\n") == "    return a\n"


def test_in_a_class_less_of_a_line_is_left():
    """79 columns as a function of its own, 83 as a method."""
    method = "    def f(a,b):\n        return a\n"
    text = "class A:\n" + method
    file = File(text.split("\n"), "a.py")
    head = "def f(a,b):"
    place = Place(file, 2, head + "\n    return a\n", head)
    body = f"\n    return abc({LONG})\n"
    assert max(map(len, body.splitlines())) == 79
    judge = Judge(JudgeConfig())

    alone, inside = fixer.fix([(None, head, body), (place, head, body)], judge)

    assert alone == body
    assert inside.count("\n") == 4


def test_where_ruff_judges_its_own_configuration_fixes(tmp_path):
    (tmp_path / "ruff.toml").write_text(
        'lint.select = ["UP"]\nformat.quote-style = "single"\n'
    )
    config = str(tmp_path / "ruff.toml")
    body = '\n    return "%s" % a\n'
    found = fixed(HEAD, body, engine="ruff", config=config)
    assert found == "\n    return f'{a}'\n" or "'%s' % a" in found
    assert '"' in fixed(HEAD, body)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("    x = 1\n", "    x = 1\n", 0.0),
        ("    x=1\n    return x\n", "    x = 1\n    return x\n", 1 / 2),
        # an insertion counts as one line of the two
        ("    import os\n    return os\n",
         "    import os\n\n    return os\n", 1 / 2),
        ("\n    return x+1\n", "\n    return x + 1\n", 1.0),
        ("", "", 0.0),
    ],
)  # fmt: skip
def test_changed_lines_are_a_share_of_those_written(before, after, share):
    assert fixer.changed_share(before, after) == share


def test_a_ruff_that_fails_is_an_error(monkeypatch):
    def fail(command, **_):
        return subprocess.CompletedProcess(command, 3, b"", b"no such option")

    monkeypatch.setattr(ruff_engine.subprocess, "run", fail)
    with pytest.raises(StylerlError, match="code 3: no such option"):
        fixed(HEAD, "\n    return a\n")
