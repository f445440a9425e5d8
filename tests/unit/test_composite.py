"""The composite reward: its parts, and every way to game a style reward."""

import numpy as np
import pytest

from stylerl.config import JudgeConfig, PPOConfig, RewardConfig
from stylerl.errors import ConfigError, TrainingError
from stylerl.judge import Judge
from stylerl.reward import functions, scorers
from stylerl.reward.composite import (
    Monitor,
    compose,
    learned_style,
    linter_style,
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


@pytest.fixture(scope="module")
def judge():
    return Judge(JudgeConfig())


@pytest.fixture(scope="module")
def reward(judge):
    """The default reward."""
    return compose(PPOConfig().reward, lambda _: linter_style(judge))


def total(reward, completion):
    parts = reward([PROMPT], [completion])
    return sum(each[0] for each in parts.values())


def test_clean_code_is_worth_the_most(reward):
    assert reward([PROMPT], [HONEST]) == {"style": [2.5]}


def test_a_violation_is_charged(reward):
    """E225 once: half of a score of 0.9, as nothing complies."""
    flawed = HONEST.replace("result = 0", "result=0")
    assert total(reward, flawed) == pytest.approx(2.5 * 0.45)


@pytest.mark.parametrize("name", ["noqa", "file noqa"])
def test_noqa_pays_nothing(reward, name):
    assert total(reward, GAMES[name]) <= total(reward, UNTIDY) + 0.05


@pytest.mark.parametrize("name", ["nothing", "syntax error"])
def test_what_does_not_parse_is_worth_nothing(reward, name):
    assert total(reward, GAMES[name]) == 0.0


def test_a_learned_reward_cannot_lift_what_does_not_parse():
    flattering = compose(
        {"classifier": 1.0}, lambda _: lambda p, c: [1.0] * len(c)
    )
    assert total(flattering, GAMES["syntax error"]) == 0.0
    assert total(flattering, HONEST) == 1.0


def fixed(scores):
    """Models by name that give everything one score."""
    return lambda name: lambda p, c: [scores[name]] * len(c)


def test_a_part_counts_with_its_weight():
    heavy = compose({"classifier": 2.0}, fixed({"classifier": 0.8}))
    assert heavy([PROMPT], [HONEST]) == {"style": [1.6]}


SCORES = {"classifier": 0.9, "models/other": 0.6}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classifier", 0.9),
        ("models/other", 0.6),
    ],
)
def test_a_model_s_style_is_0_where_nothing_parses(name, value):
    reward = compose({name: 1.0}, fixed(SCORES))
    found = reward([PROMPT, PROMPT], [HONEST, GAMES["syntax error"]])
    assert found == {"style": [pytest.approx(value), 0.0]}


def test_several_styles_bear_their_names():
    reward = compose(
        {"classifier": 1.0, "models/other": 2.0},
        fixed(SCORES),
    )
    assert reward([PROMPT], [HONEST]) == {
        "style/classifier": [0.9],
        "style/models/other": [1.2],
    }


def test_a_learned_style_lies_between_0_and_1(llama_folder):
    config = RewardConfig(base=str(llama_folder))
    scorer = scorer_training.new_scorer(config, seed=0)
    texts = [PROMPT + HONEST, PROMPT + UNTIDY]
    logits = scorers.score_texts(*scorer, texts)
    expected = pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-6)
    for kind in (None, scorers.CLASSIFIES):
        scorer.model.config.problem_type = kind
        found = learned_style(scorer)([PROMPT] * 2, [HONEST, UNTIDY])
        assert found == expected


# ---- Functions of the user's own -----------------------------------------

OWN = """
def short(prompts, completions):
    return [-len(text) / 10 for text in completions]

def two(prompts, completions):
    return {"first": [1] * len(prompts), "second": [2] * len(prompts)}

def few(prompts, completions):
    return [1.0]

def infinite(prompts, completions):
    return {"size": [1.0, float("nan")]}

def nested(prompts, completions):
    return [[1.0], [2.0]]

def nothing(prompts, completions):
    return None

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


def test_a_function_of_the_users_own_is_a_part(own):
    weights = {"own_rewards:short": 0.5, "own_rewards:two": 2.0}
    reward = compose(weights, fixed({}))
    found = reward([PROMPT, PROMPT], ["x" * 10, "x" * 20])
    assert found == {
        "own_rewards:short": [-0.5, -1.0],
        "own_rewards:two/first": [2.0, 2.0],
        "own_rewards:two/second": [4.0, 4.0],
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("few", "own_rewards:few gave 1 for 2"),
        ("infinite", "size gave nan for episode 1: check the reward"),
        ("nested", "own_rewards:nested gave a value of type list"),
        ("nothing", "own_rewards:nothing gave a value of type NoneType"),
    ],
)
def test_what_a_function_gives_is_checked(own, name, message):
    reward = compose({f"own_rewards:{name}": 1.0}, fixed({}))
    with pytest.raises(TrainingError, match=message):
        reward([PROMPT, PROMPT], [HONEST, HONEST])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("12", "of type str .which has no numbers in the episodes' order"),
        (b"12", "of type bytes"),
        ({1.0, 2.0}, "of type set"),
        (["1", "2"], "'1' is a text"),
        ([10**400, 1], "too large"),
        ([1, 3e38], r"at most 1e\+18 in size; size gave 3e\+38 for episode 1"),
        ([[1.0], [2.0]], "of type list"),
        (np.ones((2, 2)), "of type ndarray"),
        (1.0, "of type float"),
        (None, "of type NoneType"),
        ({"size": {"a": 1.0, "b": 2.0}}, "'a' is a text"),
        ({"size": [1, 2], "b": [1]}, "b gave 1 for 2: check the monitor"),
    ],
)
def test_what_is_no_number_an_episode(given, message):
    with pytest.raises(TrainingError, match=message):
        functions.columns(given, 2, "size", "monitor")


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
def test_a_function_that_is_not_there_is_an_error(own, name, message):
    with pytest.raises(ConfigError, match=message):
        compose({name: 1.0}, fixed({}))


def test_the_watch_shows_the_rate_of_each_game(judge):
    texts = [HONEST, *(GAMES[name] for name in GAMES)]
    finished = [True] * len(texts)
    seen = Monitor(judge)([PROMPT] * len(texts), texts, finished)
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


def test_a_reward_model_that_is_watched_promises(judge):
    def learned(prompts, completions):
        return [len(text) / 100 for text in completions]

    texts = [HONEST, HONEST * 2]
    seen = Monitor(judge, learned)([PROMPT] * 2, texts, [True, True])
    assert seen["predicted_compliance"] == [len(text) / 100 for text in texts]
    assert "predicted_compliance" not in Monitor(judge)(
        [PROMPT], [HONEST], [True]
    )


def test_a_cut_completion_does_not_comply(judge):
    seen = Monitor(judge)([PROMPT], [HONEST], [False])
    assert seen["compliance"] == [0.0]
    assert seen["score"] == [1.0]


def test_violations_of_the_prompt_are_not_charged(judge):
    style = linter_style(judge)
    assert style(["def f(a,b):\n"], ["    return a + b\n"]) == [1.0]
