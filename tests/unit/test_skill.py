"""HumanEval's problems as they are asked, and how often models are right."""

import pandas as pd
import pytest
from test_summary import metrics, moved

from stylerl.evaluation import guards
from stylerl.evaluation.measurement.evaluation import add_skill
from stylerl.skill import measure, problems

ROW = {
    "task_id": "HumanEval/x",
    "entry_point": "double",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "canonical_solution": (
        "    total = x\n\n    total += x\n    return total\n"
    ),
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}
SIGNATURE = 'def double(x):\n    """Twice x."""'


@pytest.mark.parametrize(
    ("lines", "prompt", "solution"),
    [
        (
            1,
            f"{SIGNATURE}\n    total = x\n\n    total += x",
            "\n    return total\n",
        ),
        # an empty line before the cut belongs to what is written
        (
            2,
            f"{SIGNATURE}\n    total = x",
            "\n\n    total += x\n    return total\n",
        ),
        (
            0,
            SIGNATURE,
            "\n    total = x\n\n    total += x\n    return total\n",
        ),
    ],
)
def test_the_last_lines_are_left_to_the_model(lines, prompt, solution):
    (problem,) = problems.problems([ROW], lines)
    assert problem.prompt == prompt
    assert problem.solution == solution
    assert problem.name == "double"


def test_a_solution_with_nothing_to_give_is_no_problem():
    assert problems.problems([ROW], 4) == []
    assert len(problems.problems([ROW], 3)) == 1


@pytest.mark.parametrize(
    ("completion", "ended", "expected"),
    [
        ("\n    return x", True, ("\n    return x", True)),
        # the function ends where another thing begins
        (
            "\n    return x\n\n\ndef f():\n    pa",
            False,
            ("\n    return x\n", True),
        ),
        ("\n    return x\nprint(1)", True, ("\n    return x\n", True)),
        # a line that was cut is none
        ("\n    y = x\n    retu", False, ("\n    y = x\n", False)),
        # what goes on with the prompt's own line
        (" + 1\n    return x\n", True, (" + 1\n    return x\n", True)),
        # a sign that ends a line for str.splitlines, and not for Python
        ("\n    s = '\u2028b'\n", True, ("\n    s = '\u2028b'\n", True)),
        ("", True, ("", True)),
    ],
)
def test_what_is_the_functions(completion, ended, expected):
    assert problems.written(completion, ended) == expected


def table(**models):
    """Two problems; greedy, then two samples of each: R right, C compliant,
    B both, - neither."""
    rows = [
        {
            "model": name,
            "problem": f"p{number // 3}",
            "sample": number % 3 - 1,
            "right": letter in "RB",
            "compliant": letter in "CB",
        }
        for name, letters in models.items()
        for number, letter in enumerate(letters)
    ]
    return pd.DataFrame(rows)


def test_right_compliant_and_both():
    """SFT: greedy 1 of 2; of samples R, B | -, C right are 2 of 4, compliant
    2, both 1; PPO: greedy 2 of 2; B, B | B, C: right 3, compliant 4, both 3.
    """
    found = measure.metrics(table(sft="RRB--C", ppo="BBBRBC"), 100, 0)
    assert found["sft"] == {
        "skill": 0.5,
        "joint": 0.25,
        "skill_greedy": 0.5,
        "skill_style": 0.5,
        "skill_compliance": 0.5,
    }
    assert found["ppo"]["skill"] == found["ppo"]["joint"] == 0.75
    assert found["ppo"]["skill_compliance"] == 1.0
    assert found["ppo"]["skill_style"] == 1.0
    # By problem, right: 1 -> 1 and 0 -> 1/2; both: 1/2 -> 1, 0 -> 1/2.
    assert found["gain"]["skill"] == 0.25
    assert found["gain"]["skill_low"] == 0.0
    assert found["gain"]["skill_high"] == 0.5
    assert found["gain"]["joint"] == found["gain"]["joint_low"] == 0.5
    assert "gain_sft" not in found


def test_one_of_ten_is_right():
    """12 samples, 2 right: of C(12, 10) = 66 draws of ten one misses both."""
    rows = [
        {"model": "sft", "problem": problem, "sample": sample}
        for problem in "ab"
        for sample in range(-1, 12)
    ]
    tried = pd.DataFrame(rows).assign(compliant=True)
    tried["right"] = (tried["problem"] == "a") & (tried["sample"] >= 10)
    found = measure.metrics(tried, 10, 0)["sft"]
    assert found["skill_of_10"] == pytest.approx(65 / 66 / 2, abs=1e-6)
    assert measure.pass_at([True] + [False] * 9) == 1
    few = measure.metrics(table(sft="RRB--C"), 10, 0)["sft"]
    assert "skill_of_10" not in few


def test_nothing_right_has_no_compliance_of_it():
    found = measure.metrics(table(sft="------"), 100, 0)
    assert "skill_compliance" not in found["sft"]


def test_it_stands_beside_the_other_metrics():
    found = {"sft": {"kl": 0.0}, "gain": {"kl": 1.0}}
    skill = {"problems": 127, "sft": {"skill": 0.5}, "gain": {"skill": 0.1}}
    add_skill(found, skill)
    assert found == {
        "sft": {"kl": 0.0, "skill": 0.5},
        "gain": {"kl": 1.0, "skill": 0.1},
        "skill": {"problems": 127},
    }


def skill_guard(evaluation):
    return next(
        (g for g in guards.guards(evaluation) if g.name == "skill"), None
    )


@pytest.mark.parametrize(
    ("low", "high", "held"),
    [(-0.1, 0.1, True), (0.1, 0.2, True), (-0.2, -0.1, False)],
)
def test_the_guard_falls_where_ppo_is_clearly_worse(low, high, held):
    guard = skill_guard(metrics(gain=moved("skill", low, high)))
    assert guard.held == held


def test_the_guard_says_why_nothing_was_measured():
    evaluation = metrics()
    for model in ("base", "sft", "ppo", "gain"):
        evaluation[model] = {
            k: v for k, v in evaluation[model].items() if "skill" not in k
        }
    assert skill_guard(evaluation) is None  # an older evaluation
    evaluation["skill"] = {"problems": 0, "why_not": "no bubblewrap"}
    guard = skill_guard(evaluation)
    assert guard.held
    assert guard.markdown == "- skill: not measured, no bubblewrap"
