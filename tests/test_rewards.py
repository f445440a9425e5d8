"""The composite reward: its parts, and every way to game a style reward."""

import pytest

from stylerl.config import JudgeConfig, PPOConfig
from stylerl.judge import Judge
from stylerl.reward.composite import (
    StyleReward,
    Watch,
    expected_sizes,
    linter_style,
    repetition,
)

PROMPT = "def total(prices, rate):\n"
HONEST = (
    "    result = 0\n"
    "    for price in prices:\n"
    "        result += price * rate\n"
    "    return result\n"
)
SIZE = 3 + 3 + 5 + 2  # nodes: assign, for, augmented assign, return
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
    """The linter for style; the reference writes as much as HONEST."""
    return StyleReward(linter_style(judge), {PROMPT: SIZE}, weight=1.0)


def total(reward, completion):
    parts = reward([PROMPT], [completion])
    return sum(each[0] for each in parts.values())


def test_an_honest_clean_body_is_worth_two(reward):
    """Style 1, and all of the size expected."""
    assert reward([PROMPT], [HONEST]) == {
        "style": [1.0],
        "substance": [1.0],
        "repetition": [0.0],
        "unparsable": [0.0],
    }


def test_violations_are_charged_to_style(reward):
    """E225 at `result=0` and at `result +=price*rate`... what flake8 counts
    is its own test; here style is half of the score, as nothing complies."""
    parts = reward([PROMPT], [UNTIDY])
    assert 0.25 < parts["style"][0] < 0.5
    assert parts["substance"] == [1.0]


@pytest.mark.parametrize("name", GAMES)
def test_no_game_beats_honest_code_with_a_violation(reward, name):
    """Four statements with E225 once are worth 1 + 0.45."""
    flawed = HONEST.replace("result = 0", "result=0")
    assert total(reward, flawed) == pytest.approx(1.45)
    if "noqa" in name:
        assert total(reward, GAMES[name]) <= total(reward, UNTIDY) + 0.05
    else:
        assert total(reward, GAMES[name]) < 1.4


@pytest.mark.parametrize("name", ["pass", "ellipsis", "docstring"])
def test_a_hollow_body_is_worth_nothing(reward, name):
    assert total(reward, GAMES[name]) == 0.0


def test_what_does_not_parse_is_the_floor(reward):
    floor = total(reward, GAMES["syntax error"])
    assert floor == total(reward, GAMES["nothing"]) == -1.0
    assert all(total(reward, text) >= floor for text in GAMES.values())


def test_a_learned_reward_cannot_lift_what_does_not_parse():
    flattering = StyleReward(lambda p, c: [1.0] * len(c), {PROMPT: SIZE}, 1.0)
    assert total(flattering, GAMES["syntax error"]) == -1.0
    assert total(flattering, GAMES["pass"]) == 0.0


@pytest.mark.parametrize(
    ("completion", "value"),
    [
        (HONEST, 0.0),
        ("    a\n    a\n    b\n    c\n", 0.0),  # 1 of 4 is usual
        ("    a\n    a\n    a\n    b\n", 1 / 3),  # (1/2 - 1/4) / (3/4)
        ("    a\n" * 4, 2 / 3),  # (3/4 - 1/4) / (3/4)
        (PROMPT + HONEST, 1.0),
        ("", 0.0),
    ],
)
def test_repetition(completion, value):
    assert repetition(PROMPT, completion) == pytest.approx(value)


def test_the_weight_scales_substance(judge):
    heavy = StyleReward(linter_style(judge), {PROMPT: 2.0 * SIZE}, 3.0)
    assert heavy([PROMPT], [HONEST])["substance"] == [1.5]


def test_the_watch_shows_the_rate_of_each_game(judge):
    texts = [HONEST, *(GAMES[name] for name in GAMES)]
    finished = [True] * len(texts)
    seen = Watch(judge)([PROMPT] * len(texts), texts, finished)
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


def test_a_cut_completion_does_not_comply(judge):
    seen = Watch(judge)([PROMPT], [HONEST], [False])
    assert seen["compliance"] == [0.0]
    assert seen["score"] == [1.0]


def test_violations_of_the_prompt_are_not_charged(judge):
    style = linter_style(judge)
    assert style(["def f(a,b):\n"], ["    return a + b\n"]) == [1.0]


def test_expected_sizes_come_from_the_reference(tiny_llama, tokenizer):
    config = PPOConfig(batch_size=4, max_new_tokens=4)
    found = expected_sizes(
        tiny_llama, tokenizer, [PROMPT, "x = 1\n"], config, seed=0
    )
    assert set(found) == {PROMPT, "x = 1\n"}
    again = expected_sizes(
        tiny_llama, tokenizer, [PROMPT, "x = 1\n"], config, seed=0
    )
    assert found == again
