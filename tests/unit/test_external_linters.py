"""Linters that no reward has seen: what they are asked, and are charged."""

import pandas as pd
import pytest

from stylerl.config import JudgeConfig
from stylerl.evaluation.measurement import external_linters
from stylerl.judge import Judge

PROMPT = "def f(a, b=[]):\n"  # B006: the prompt's own


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("    return a\n", []),
        ("    return list([x for x in a])\n", ["C411", "C416"]),
        ("    myVar = a\n    return myVar + myVar\n", ["N806"]),
        ("    myVar = a  # noqa\n    return myVar + myVar\n", ["N806"]),
        ("    if a:\n        return True\n    return False\n", ["SIM103"]),
        ("    x=a\n    return x+x\n", []),  # pycodestyle's, not asked
        ("    return (\n", None),
    ],
)
def test_ruff_charges_what_stands_behind_the_prompt(body, codes):
    (found,) = charged((PROMPT, body))

    assert (sorted(found) if found is not None else None) == codes


def charged(*pairs):
    """The codes of ruff's that each prompt's completion is charged with."""
    table = pd.DataFrame(pairs, columns=["prompt", "judged"])
    return external_linters.lint(table, Judge(JudgeConfig()))["ruff"].tolist()


def test_findings_are_columns_of_the_table():
    # The prompt ends before its line end: its row is not the completion's.
    table = pd.DataFrame(
        {
            "prompt": ["def f(a,b):", "def f(a,b):"],
            "judged": ["\n    x=a\n    return x\n", "\n    return (\n"],
        },
        index=[7, 3],
    )

    found = external_linters.lint(table, Judge(JudgeConfig()))

    assert found.index.tolist() == [7, 3]
    assert found["ruff"].tolist() == [["RET504"], None]


def test_where_ruff_judges_flake8_is_unseen(tmp_path):
    """E225 and W291 are found; W291 is a rule that ruff's reward sees."""
    (tmp_path / "ruff.toml").write_text('lint.select = ["W"]\n')
    judge = Judge(
        JudgeConfig(engine="ruff", config=str(tmp_path / "ruff.toml"))
    )
    table = pd.DataFrame(
        {
            "prompt": ["def f(a,b):", "def f(a,b):"],
            "judged": ["\n    x=a \n    return x\n", "\n    return (\n"],
        }
    )

    found = external_linters.lint(table, judge)

    assert [*found] == ["flake8"]
    assert found["flake8"].tolist() == [["E225"], None]
