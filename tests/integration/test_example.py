"""The example of examples/sentiment.py: its reward, and that it learns."""

import pytest

from examples import sentiment


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("good wonderful", 20.0),  # 5 (1 + 3)
        ("Love, sad.", 14.0),  # 5 * 3 - 1
        ("sad tired rainy", 0.1),  # -3, at least 0.1
        ("", 0.1),
        ("goodness", 0.1),
    ],
)
def test_the_reward_by_hand(text, score):
    assert sentiment.reward(["x"], [text]) == [score]


@pytest.mark.slow
def test_the_mean_reward_rises_and_the_table_is_printed(capsys):
    """From about 6 to more than three times as much in ten updates."""
    means = sentiment.main(["--updates", "10", "--samples", "8", "--by-hand"])
    assert len(means) == 10
    assert sum(means[-3:]) > 3 * sum(means[:2])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("update ") for line in lines) == 10
    for prompt in sentiment.PROMPTS:
        at = lines.index(f"{prompt} ...")
        assert lines[at + 1].strip().startswith("before")
        assert lines[at + 2].strip().startswith("after")
    _, _, _, before, _, after = lines[-1].split()
    assert float(after) > 2 * float(before)
