"""Corruptions: each rule by a hand-made case, and whole bodies."""

import ast
import dataclasses
import functools
import random
from pathlib import Path

import pytest

from stylerl import config
from stylerl.corrupt import RULES, break_once, corrupt_style
from stylerl.corrupt.rules import breaks_only
from stylerl.judge import Judge

# Every pycodestyle rule but those that contradict each other or the cases.
STRICT = config.JudgeConfig(
    ignore=("E121", "E123", "E126", "W503", "W504", "F821", "F401", "F841")
)
BODY = "def f(a, b=None):\n"
ROOT = Path(__file__).resolve().parents[2]

# rule: code with one site of it, and the same code with the rule broken.
CASES = {
    "E111": ("if x:\n    y = 1\n", "if x:\n  y = 1\n"),
    "E114": (
        "if x:\n    y = 1\n    # Why.\n    z = 1\n",
        "if x:\n    y = 1\n  # Why.\n    z = 1\n",
    ),
    "E115": (
        "if x:\n    # Why.\n    y = 1\n",
        "if x:\n# Why.\n    y = 1\n",
    ),
    "E116": ("x = 1\n# Why.\ny = 1\n", "x = 1\n    # Why.\ny = 1\n"),
    "E117": ("if x:\n    y = 1\n", "if x:\n        y = 1\n"),
    "E122": ("x = f(\n    1,\n)\n", "x = f(\n1,\n)\n"),
    "E124": ("x = f(1, 2)\n", "x = f(1, 2\n)\n"),
    "E125": (
        "while f(x):\n    y = 1\n",
        "while f(\n    x):\n    y = 1\n",
    ),
    "E127": ("x = f(1,\n      2)\n", "x = f(1,\n        2)\n"),
    "E128": ("x = f(1,\n      2)\n", "x = f(1,\n    2)\n"),
    "E129": (
        "if x and y:\n    z = 1\n",
        "if (x and\n    y):\n    z = 1\n",
    ),
    "E131": ("x = f(\n    1,\n    2)\n", "x = f(\n    1,\n      2)\n"),
    "W191": ("if x:\n    y = 1\n", "if x:\n\ty = 1\n"),
    "E201": ("x = f(1)\n", "x = f( 1)\n"),
    "E202": ("x = f(1)\n", "x = f(1 )\n"),
    "E203": ("x = f(1, 2)\n", "x = f(1 , 2)\n"),
    "E204": (
        "@g\ndef f():\n    pass\n",
        "@ g\ndef f():\n    pass\n",
    ),
    "E211": ("x = f(1)\n", "x = f (1)\n"),
    "E221": ("x = 1\n", "x  = 1\n"),
    "E222": ("x = 1\n", "x =  1\n"),
    "E223": ("x = 1\n", "x\t= 1\n"),
    "E224": ("x = 1\n", "x =\t1\n"),
    "E225": ("x = 1\n", "x=1\n"),
    "E226": ("f(x + 1)\n", "f(x+1)\n"),
    "E227": ("f(x | 1)\n", "f(x|1)\n"),
    "E228": ("f(x % 2)\n", "f(x%2)\n"),
    "E231": ("f(1, 2)\n", "f(1,2)\n"),
    "E241": ("f(1, 2)\n", "f(1,  2)\n"),
    "E242": ("f(1, 2)\n", "f(1,\t2)\n"),
    "E251": ("f(x=1)\n", "f(x = 1)\n"),
    "E252": (
        "def f(x: int = 1):\n    pass\n",
        "def f(x: int=1):\n    pass\n",
    ),
    "E261": ("x = 1  # One.\n", "x = 1 # One.\n"),
    "E262": ("x = 1  # One.\n", "x = 1  #One.\n"),
    "E265": ("# One.\nx = 1\n", "#One.\nx = 1\n"),
    "E266": ("# One.\nx = 1\n", "## One.\nx = 1\n"),
    "E271": ("assert x\n", "assert  x\n"),
    "E272": ("f(x in y)\n", "f(x  in y)\n"),
    "E273": ("assert x\n", "assert\tx\n"),
    "E274": ("f(x in y)\n", "f(x\tin y)\n"),
    "E275": ("if x:\n    y = 1\n", "if(x):\n    y = 1\n"),
    "E301": (
        "class A:\n    x = 1\n\n    def f(self):\n        pass\n",
        "class A:\n    x = 1\n    def f(self):\n        pass\n",
    ),
    "E302": (
        "x = 1\n\n\ndef f():\n    pass\n",
        "x = 1\ndef f():\n    pass\n",
    ),
    "E303": ("x = 1\ny = 2\n", "x = 1\n\n\n\ny = 2\n"),
    "E304": (
        "@g\ndef f():\n    pass\n",
        "@g\n\ndef f():\n    pass\n",
    ),
    "E305": (
        "def f():\n    pass\n\n\nx = 1\n",
        "def f():\n    pass\nx = 1\n",
    ),
    "E306": (
        "def f():\n    x = 1\n\n    def g():\n        pass\n",
        "def f():\n    x = 1\n    def g():\n        pass\n",
    ),
    "E501": (
        f"x = f(\n    {'a' * 50},\n    {'b' * 40},\n)\n",
        f"x = f({'a' * 50}, {'b' * 40},)\n",
    ),
    "E502": ("x = f(1,\n      2)\n", "x = f(1, \\\n      2)\n"),
    "E701": ("if x:\n    y = 1\n", "if x: y = 1\n"),
    "E702": ("x = 1\ny = 2\n", "x = 1; y = 2\n"),
    "E703": ("x = 1\n", "x = 1;\n"),
    "E704": ("def f(x):\n    return x\n", "def f(x): return x\n"),
    "E711": ("f(x is not None)\n", "f(x != None)\n"),
    "E712": (
        "if not x.y:\n    z = 1\n",
        "if x.y == False:\n    z = 1\n",
    ),
    "E713": ("f(x not in y)\n", "f(not x in y)\n"),
    "E714": ("f(x.a is not y)\n", "f(not x.a is y)\n"),
    "E721": (
        "if isinstance(x, int):\n    y = 1\n",
        "if type(x) == int:\n    y = 1\n",
    ),
    "E722": (
        "try:\n    f()\nexcept Exception:\n    pass\n",
        "try:\n    f()\nexcept:\n    pass\n",
    ),
    "E731": (
        "def f(x, y):\n    return x + y\n",
        "f = lambda x, y: x + y\n",
    ),
    "E741": ("x = 1\nf(x)\n", "l = 1\nf(l)\n"),
    "W291": ("x = 1\n", "x = 1 \n"),
    "W292": ("x = 1\n", "x = 1"),
    "W293": (
        "if x:\n    y = 1\n\n    z = 1\n",
        "if x:\n    y = 1\n    \n    z = 1\n",
    ),
    "W391": ("x = 1\n", "x = 1\n\n"),
    "W605": ("f(r'\\d+')\n", "f('\\d+')\n"),
    "E121": ("x = f(\n    1,\n)\n", "x = f(\n  1,\n)\n"),
    "E123": ("x = f(\n    1,\n)\n", "x = f(\n    1,\n    )\n"),
    "E126": ("x = f(\n    1,\n)\n", "x = f(\n        1,\n)\n"),
    "E401": ("import a\nimport b.c\n", "import a, b.c\n"),
    "E402": ("import a\nx = 1\n", "x = 1\nimport a\n"),
    "E742": (
        "class A:\n    x = 1\n\n\ny = A()\n",
        "class l:\n    x = 1\n\n\ny = l()\n",
    ),
    "E743": (
        "def g():\n    pass\n\n\ny = g()\n",
        "def l():\n    pass\n\n\ny = l()\n",
    ),
    "W503": ("x = (a +\n     b)\n", "x = (a\n     + b)\n"),
    "W504": ("x = (a\n     + b)\n", "x = (a +\n     b)\n"),
    "F401": (
        "def f():\n    import os\n    return os\n",
        "def f():\n    import sys\n    import os\n    return os\n",
    ),
    "F507": ("x = '%s %s' % (a, b)\n", "x = '%s %s' % (a, b, None)\n"),
    "F509": ("x = 'a%s' % b\n", "x = 'a%y' % b\n"),
    "F523": ("x = '{}'.format(a)\n", "x = '{}'.format(a, None)\n"),
    "F524": ("x = '{} {}'.format(a, b)\n", "x = '{} {}'.format(a)\n"),
    "F525": (
        "x = '{} {}'.format(a, b)\n",
        "x = '{} {1}'.format(a, b)\n",
    ),
    "F541": ("x = 'a'\n", "x = f'a'\n"),
    "F601": ("x = {'a': 1}\n", "x = {'a': ..., 'a': 1}\n"),
    "F631": ("assert x, 'no'\n", "assert (x, 'no')\n"),
    "F632": ("f(x != 'a')\n", "f(x is not 'a')\n"),
    "F634": ("if x:\n    y = 1\n", "if (x,):\n    y = 1\n"),
    "F811": ("import a\nf(a)\n", "import a\nimport a\nf(a)\n"),
    "F841": (
        "def f(x):\n    x.g(y=1)\n",
        "def f(x):\n    result = x.g(y=1)\n",
    ),
    "F842": (
        "def f():\n    return 1\n",
        "def f():\n    result: int\n    return 1\n",
    ),
    "F901": (
        "raise NotImplementedError('f')\n",
        "raise NotImplemented('f')\n",
    ),
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


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_broken_and_no_other(rule: str, judge: Judge) -> None:
    if rule in STRICT.ignore:
        ignored = tuple(other for other in STRICT.ignore if other != rule)
        judge = Judge(dataclasses.replace(STRICT, ignore=ignored))
    clean, expected = CASES[rule]
    assert judge.verdict(clean).compliant
    drafts = {
        break_once(rule, clean, 0, random.Random(seed)) for seed in range(20)
    }
    assert expected in drafts
    assert breaks_only(rule, judge.verdict(expected))
    if RULES[rule].keeps_tree:
        assert ast.dump(ast.parse(expected)) == ast.dump(ast.parse(clean))


@pytest.mark.parametrize("rule", RULES)
def test_all_sites_at_once_keep_the_program(rule: str) -> None:
    for i, (text, start) in enumerate(_functions()):
        corrupted = RULES[rule](text, random.Random(i), start, share=1.0)
        if corrupted is None:
            continue
        assert corrupted[:start] == text[:start]
        tree = ast.parse(corrupted)
        if RULES[rule].keeps_tree:
            assert ast.dump(tree) == _tree(text)


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
    for rule in ("W191", "E111", "E117", "W291", "W293"):
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
