"""The reward of PPO: its parts, and every way to game a style reward."""

from pathlib import Path

import numpy as np
import pytest

from stylerl.config import PPOConfig, RewardConfig
from stylerl.errors import ConfigError, TrainingError
from stylerl.reward import functions, scorers
from stylerl.reward.functions import by_reward
from stylerl.reward.grade import grade, monitored, style
from stylerl.reward.grader import (
    StyleGrader,
    learned_style,
    style_grader,
)
from stylerl.reward_models import scorer_training

PROMPT = "def total(prices, rate):\n"
HONEST = (
    "    result = 0\n"
    "    for price in prices:\n"
    "        result += price * rate\n"
    "    return result\n"
)
UNTIDY = HONEST.replace(" = ", "=").replace(" * ", "*")
GAMES = {
    "pass": "    pass\n",
    "ellipsis": "    ...\n",
    "docstring": '    """Add the prices up."""\n',
    "comments": "    # add the prices up\n    return None\n",
    "nothing": "",
    "syntax error": "    return (\n",
    "one line again": "    print(rate)\n" * 8,
    "stop at once": "    return rate\n",
    "noqa": UNTIDY.replace("\n", "  # noqa\n"),
    "file noqa": "    # flake8: noqa\n" + UNTIDY,
    "copied prompt": HONEST + "\n\n" + PROMPT + HONEST,
}


@pytest.fixture
def reward(judge):
    """What the default reward gives: parts of prompts and completions."""
    return rewards(judge, PPOConfig().reward)


def rewards(judge, weights, scores=None):
    """The parts by these weights; a reward model gives all one score."""
    made = style_grader(
        judge,
        weights,
        Path("models"),
        lambda folder: lambda grades: [scores[folder.name]] * len(grades),
    )

    def reward(prompts, completions):
        return made(prompts, completions, [True] * len(prompts)).reward

    return reward


def total(reward, completion):
    parts = reward([PROMPT], [completion])
    return sum(each[0] for each in parts.values())


def test_clean_code_is_worth_the_most(reward):
    assert reward([PROMPT], [HONEST]) == {"style": [2.5], "arguments": [1.0]}


def test_a_violation_is_charged(reward):
    """E225 once: half of a score of 0.9, as nothing complies."""
    flawed = HONEST.replace("result = 0", "result=0")
    assert total(reward, flawed) == pytest.approx(2.5 * 0.45 + 1)


@pytest.mark.parametrize(
    ("prompt", "completion", "share"),
    [
        (PROMPT, "    return rate\n", 0.5),
        (PROMPT, "    return 0\n", 0.0),
        (PROMPT, "    return (\n", 0.0),  # does not parse
        (PROMPT, "    prices, rate\n    return 0\n", 0.0),  # does nothing
        (PROMPT, "    rate = rate\n    return prices, rate\n", 0.0),
        (PROMPT, "    rate = 1 + rate\n    return prices, rate\n", 1.0),
        ('def now():\n    """It."""\n', "", 0.0),  # no statement
        ("def now(self):\n", "    return 0\n", 1.0),  # has none
        ("x = 1\n", "y = x\n", 1.0),  # opens no function
    ],
)
def test_arguments_that_a_body_reads_are_paid(
    judge, prompt, completion, share
):
    reward = rewards(judge, {"arguments": 0.5})
    found = reward([prompt], [completion])
    assert found == {"arguments": [0.5 * share]}


@pytest.mark.parametrize("name", ["noqa", "file noqa"])
def test_noqa_pays_nothing(reward, name):
    assert total(reward, GAMES[name]) <= total(reward, UNTIDY) + 0.05


@pytest.mark.parametrize("name", ["nothing", "syntax error"])
def test_what_does_not_parse_is_worth_nothing(reward, name):
    assert total(reward, GAMES[name]) == 0.0


def test_a_part_counts_with_its_weight(judge):
    heavy = rewards(judge, {"classifier": 2.0}, {"classifier": 0.8})
    assert heavy([PROMPT], [HONEST]) == {"style": [1.6]}


SCORES = {"classifier": 0.9, "pairwise": 0.6}


@pytest.mark.parametrize(("name", "value"), SCORES.items())
def test_a_model_s_style_is_0_where_nothing_parses(judge, name, value):
    reward = rewards(judge, {name: 1.0}, SCORES)
    found = reward([PROMPT, PROMPT], [HONEST, GAMES["syntax error"]])
    assert found == {"style": [pytest.approx(value), 0.0]}


def test_several_styles_bear_their_names(judge):
    weights = {"classifier": 1.0, "pairwise": 2.0, "linter": 1.0}
    assert rewards(judge, weights, SCORES)([PROMPT], [HONEST]) == {
        "style/classifier": [0.9],
        "style/pairwise": [1.2],
        "style/linter": [1.0],
    }


def test_a_learned_style_lies_between_0_and_1(judge, llama_folder):
    config = RewardConfig(base=str(llama_folder))
    scorer = scorer_training.new_scorer(config, seed=0)
    texts = [PROMPT + HONEST, PROMPT + UNTIDY]
    grades = grade(judge, [PROMPT] * 2, [HONEST, UNTIDY], [True] * 2)
    logits = scorers.score_texts(*scorer, texts)
    expected = pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-6)
    for kind in (None, scorers.CLASSIFIES):
        scorer.model.config.problem_type = kind
        assert learned_style(scorer)(grades) == expected


# ---- Functions of the user's own -----------------------------------------

OWN = """
def short(prompts, completions):
    return [-len(text) / 10 for text in completions]

def named(prompts, completions):
    return {"first": [1] * len(prompts)}

def few(prompts, completions):
    return [1.0]

def one(prompt):
    return 1.0

constant = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's module beside the project."""
    (tmp_path / "own_rewards.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("1 / 0")
    (tmp_path / "own_script.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_function_of_the_users_own_is_a_part(judge, own):
    reward = rewards(judge, {"own_rewards:short": 0.5})
    found = reward([PROMPT, PROMPT], ["x" * 10, "x" * 20])
    assert found == {"own_rewards:short": [-0.5, -1.0]}


@pytest.mark.parametrize("name", ["few", "named"])
def test_what_a_function_gives_is_checked(judge, own, name):
    reward = rewards(judge, {f"own_rewards:{name}": 1.0})
    with pytest.raises(TrainingError, match=f"{name} gave .* for 2"):
        reward([PROMPT, PROMPT], [HONEST, HONEST])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b"], r"size gave \['a', 'b'\] for 2"),
        ([10**400, 1], "size gave "),
        ([1, float("nan")], "size gave nan for episode 1: check the function"),
        ([1, 3e38], r"at most 1e\+18 in size; size gave 3e\+38 for episode 1"),
        ([[1.0], [2.0]], "size gave "),
        (np.ones((2, 2)), "size gave "),
        (1.0, "size gave 1.0 for 2"),
        (None, "size gave None for 2"),
        ({"size": {"a": 1.0, "b": 2.0}}, "size gave {'a'"),
        ({"size": [1, 2], "b": [1]}, r"b gave \[1\] for 2"),
    ],
)
def test_what_is_no_number_an_episode(given, message):
    with pytest.raises(TrainingError, match=message):
        functions.columns(given, 2, "size")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_absent:short", "No module named 'own_absent'"),
        ("own_rewards:absent", "own_rewards:absent is not"),
        ("own_broken:short", "ZeroDivisionError"),
        ("own_rewards:constant", "own_rewards:constant must be.*got a int"),
        ("own_rewards:one", r"\(prompts, completions\); got one for others"),
        ("own_script:main", "SystemExit: 0"),
    ],
)
def test_a_function_that_is_not_there_is_an_error(judge, own, name, message):
    with pytest.raises(ConfigError, match=message):
        rewards(judge, {name: 1.0})


@pytest.mark.parametrize("reward", [1.0, lambda prompts: []])
def test_what_is_no_reward_makes_no_grader(reward):
    with pytest.raises(ConfigError, match="the reward must be a function"):
        by_reward(reward)


def test_the_watch_shows_the_rate_of_each_game(judge):
    texts = [HONEST, *(GAMES[name] for name in GAMES)]
    count = len(texts)
    seen = monitored(grade(judge, [PROMPT] * count, texts, [True] * count))
    table = {
        name: {key: values[at] for key, values in seen.items()}
        for at, name in enumerate(["honest", *GAMES])
    }
    assert table["honest"]["compliance"] == 1.0
    assert table["honest"]["statements"] == 4.0
    assert table["honest"]["trivial"] == 0.0
    assert table["pass"]["trivial"] == 1.0
    assert table["comments"]["comment_lines"] == 0.5
    assert table["syntax error"]["parse_rate"] == 0.0
    assert table["one line again"]["repeated_lines"] == 7 / 8
    assert table["noqa"]["noqa"] == 1.0
    assert table["noqa"]["compliance"] == 0.0
    assert table["copied prompt"]["copied_prompt"] == 1.0


def test_a_cut_completion_does_not_comply_and_is_paid_as_one_that_ended(judge):
    """The trainer's penalty for the cut is beside that."""
    grader = StyleGrader(judge, {"linter": 1.0}, {}, {})
    found = grader([PROMPT], [HONEST], [False])
    assert found.monitored["compliance"] == [0.0]
    assert found.monitored["score"] == [1.0]
    assert found.reward == {"style": [1.0]}


def test_violations_of_the_prompt_are_not_charged(judge):
    (graded,) = grade(judge, ["def f(a,b):\n"], ["    return a + b\n"], [True])
    assert style(graded) == 1.0
