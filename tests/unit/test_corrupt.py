"""Corruptions: each rule by a hand-made case, and whole bodies."""

import ast
import functools
import random
from pathlib import Path

import pytest

from stylerl import config
from stylerl.corrupt import RULES, break_once, corrupt_style
from stylerl.judge import Judge

# Every pycodestyle rule but those that contradict each other or the cases.
STRICT = config.JudgeConfig(
    ignore=("E121", "E123", "E126", "W503", "W504", "F821")
)
BODY = "def f(a, b=None):\n"
ROOT = Path(__file__).resolve().parents[2]

# rule: code with one site of it, and the same code with the rule broken.
CASES = {
    "E111": ("if x:\n    y = 1\n", "if x:\n  y = 1\n"),
    "W191": ("if x:\n    y = 1\n", "if x:\n\ty = 1\n"),
    "E201": ("x = f(1)\n", "x = f( 1)\n"),
    "E202": ("x = f(1)\n", "x = f(1 )\n"),
    "E203": ("x = f(1, 2)\n", "x = f(1 , 2)\n"),
    "E211": ("x = f(1)\n", "x = f (1)\n"),
    "E221": ("x = 1\n", "x  = 1\n"),
    "E222": ("x = 1\n", "x =  1\n"),
    "E225": ("x = 1\n", "x=1\n"),
    "E226": ("f(x + 1)\n", "f(x+1)\n"),
    "E231": ("f(1, 2)\n", "f(1,2)\n"),
    "E241": ("f(1, 2)\n", "f(1,  2)\n"),
    "E251": ("f(x=1)\n", "f(x = 1)\n"),
    "E265": ("# One.\nx = 1\n", "#One.\nx = 1\n"),
    "E271": ("assert x\n", "assert  x\n"),
    "E272": ("f(x in y)\n", "f(x  in y)\n"),
    "E275": ("if x:\n    y = 1\n", "if(x):\n    y = 1\n"),
    "E303": ("x = 1\ny = 2\n", "x = 1\n\n\n\ny = 2\n"),
    "E501": (
        f"x = f(\n    {'a' * 50},\n    {'b' * 40},\n)\n",
        f"x = f({'a' * 50}, {'b' * 40},)\n",
    ),
    "E701": ("if x:\n    y = 1\n", "if x: y = 1\n"),
    "E702": ("x = 1\ny = 2\n", "x = 1; y = 2\n"),
    "E703": ("x = 1\n", "x = 1;\n"),
    "W291": ("x = 1\n", "x = 1 \n"),
    "W293": (
        "if x:\n    y = 1\n\n    z = 1\n",
        "if x:\n    y = 1\n    \n    z = 1\n",
    ),
    "W391": ("x = 1\n", "x = 1\n\n"),
}


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(STRICT)


@functools.cache
def _functions() -> list[tuple[str, int]]:
    """Functions of this project, and where their bodies begin."""
    found = []
    for file in sorted(ROOT.glob("stylerl/[ljr]*/*.py")):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        for node in ast.parse("".join(lines)).body:
            if isinstance(node, ast.FunctionDef):
                body = node.body[0].lineno - 1
                prompt = "".join(lines[node.lineno - 1 : body])
                rest = "".join(lines[body : node.end_lineno])
                found.append((prompt + rest, len(prompt)))
    assert len(found) > 50
    return found[::4]


@functools.cache
def _tree(text: str) -> str:
    return ast.dump(ast.parse(text))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_broken_and_no_other(rule: str, judge: Judge) -> None:
    clean, expected = CASES[rule]
    assert judge.verdict(clean).compliant
    drafts = {
        break_once(rule, clean, 0, random.Random(seed)) for seed in range(20)
    }
    assert expected in drafts
    verdict = judge.verdict(expected)
    assert verdict.parsed
    assert {v.code for v in verdict.violations} == {rule}
    assert ast.dump(ast.parse(expected)) == ast.dump(ast.parse(clean))


@pytest.mark.parametrize("rule", RULES)
def test_all_sites_at_once_keep_the_program(rule: str) -> None:
    for i, (text, start) in enumerate(_functions()):
        corrupted = RULES[rule](text, random.Random(i), start, share=1.0)
        if corrupted is None:
            continue
        assert corrupted[:start] == text[:start]
        assert ast.dump(ast.parse(corrupted)) == _tree(text)


def test_corrupt_style_changes_the_body_alone() -> None:
    changed = 0
    for i, (text, start) in enumerate(_functions()):
        corrupted, names = corrupt_style(text, start, random.Random(i))
        assert corrupted[:start] == text[:start]
        assert len(names) <= 4
        assert set(names) <= set(RULES)
        assert (corrupted != text) == bool(names)
        ast.parse(corrupted)
        changed += bool(names)
    assert changed > 0.95 * len(_functions())


def test_corrupt_style_is_a_function_of_the_generator() -> None:
    text, start = _functions()[0]
    twice = [corrupt_style(text, start, random.Random(3)) for _ in range(2)]
    assert twice[0] == twice[1]
    others = {
        corrupt_style(text, start, random.Random(n))[0] for n in range(20)
    }
    assert len(others) > 10


def test_corrupt_style_takes_a_whole_file() -> None:
    text = "import os\n\n\ndef f(a, b):\n    return os.sep + a + b\n"
    results = {corrupt_style(text, -1, random.Random(n))[0] for n in range(50)}
    assert any(
        not corrupted.startswith("import os\n\n\ndef") for corrupted in results
    )


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n    return 1\n",  # does not parse
        "",
        "\n",
    ],
)
def test_corrupt_style_leaves_what_it_cannot_change(text: str) -> None:
    assert corrupt_style(text, 0, random.Random(0)) == (text, [])


def test_strings_over_lines_keep_their_text() -> None:
    text = (
        BODY + '    if a:\n        x = """one\n        two"""\n    return x\n'
    )
    for rule in ("W191", "E111", "W291", "W293"):
        corrupted = RULES[rule](text, random.Random(0), len(BODY), share=1.0)
        if corrupted is not None:
            assert '"""one\n        two"""' in corrupted


def test_a_docstring_in_the_prompt_keeps_its_indentation() -> None:
    prompt = BODY + '    """Say."""\n'
    text = prompt + "    if a:\n        return 1\n    return 2\n"
    # The body is as deep as the docstring: only deeper lines may move.
    assert RULES["W191"](text, random.Random(0), len(prompt)) == (
        prompt + "    if a:\n    \treturn 1\n    return 2\n"
    )


def test_a_free_body_is_indented_throughout() -> None:
    text = BODY + "    if a:\n        return 1\n    return 2\n"
    assert RULES["W191"](text, random.Random(0), len(BODY)) == (
        BODY + "\tif a:\n\t\treturn 1\n\treturn 2\n"
    )


def test_the_prompt_is_left_as_it_is() -> None:
    text = "def f(a, b=None):\n    return g(a, key=b)\n"
    start = text.index("    return")
    # One place for E251 in the body; none for E225, whose = is in the prompt.
    corrupted = break_once("E251", text, start, random.Random(0))
    assert corrupted == text.replace("key=b", "key = b")
    assert break_once("E225", text, start, random.Random(0)) is None


def test_a_prompt_may_end_before_its_line_end() -> None:
    text = "def f(a):\n    return g(a, key=1)\n"
    start = text.index("\n")
    for seed in range(10):
        body = corrupt_style(text, start, random.Random(seed))
        assert body == corrupt_style(text, start + 1, random.Random(seed))
    for rule in RULES:
        one, other = (
            break_once(rule, text, at, random.Random(0))
            for at in (start, start + 1)
        )
        assert one == other
