"""The rivals of the benchmarks: what they choose, and what they learn."""

import by_sft
import by_trl
import pandas as pd
import pytest
from by_raft import best_as_long, best_of_each
from conftest import build_trainer

from stylerl.ppo import by_reward


@pytest.mark.parametrize(
    ("rewards", "size", "best"),
    [
        ([1.0, 3.0, 2.0, 0.0], 4, [1]),
        ([1.0, 3.0, 2.0, 0.0], 2, [1, 2]),
        ([0.5, 0.5, -1.0, -1.0], 2, [0, 2]),  # the first of equals
        ([0.1, 0.2], 1, [0, 1]),
    ],
)
def test_the_best_of_each_prompt_is_kept(
    rewards: list[float], size: int, best: list[int]
) -> None:
    assert best_of_each(rewards, size) == best


@pytest.mark.parametrize(
    ("rewards", "longer", "best"),
    [
        # Without a price 0 and 3 are best, 2 units shorter; from 0.5 a unit
        # down the second pair's longer one is, and the sum is 0.
        ([1.0, 0.0, 0.0, 0.5], [-1.0, 1.0, 1.0, -1.0], [0, 2]),
        # Equal rewards: at any price both are short, or both long.
        ([1.0, 1.0, 1.0, 1.0], [-0.5, 0.5, 1.0, -1.0], [0, 2]),
        ([0.0, 1.0], [0.0, 0.0], [1]),  # no length to choose by
    ],
)
def test_those_chosen_are_as_long_as_all(
    rewards: list[float], longer: list[float], best: list[int]
) -> None:
    assert best_as_long(rewards, longer, 2) == best


def test_what_length_explains_is_taken_from_rewards() -> None:
    """Two prompts.  Lengths of 1, 1, 3, 3 tokens: log(1 + length) is ln 2 / 2
    below its mean or above it.  Of 3, 7, 7 and one that was cut, which has
    none: -2 / 3, 1 / 3, 1 / 3 of ln 2, and 0.  With rewards R the slope is
    sum(R L) / sum(L^2) = -ln 2 / (5 / 3 ln^2 2) = -0.6 / ln 2."""
    rewards = [2.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 5.0]
    trainer = build_trainer(
        by_reward(lambda prompts, texts: {"score": rewards}),
        ["def f(a):"],
        keep_length=True,
        missing_eos_penalty=0.0,
    )
    eos = trainer.tokenizer.eos_token_id
    lengths = [1, 1, 3, 3, 3, 7, 7]
    found = by_trl.trl_rewards(
        trainer,
        ["def f(a):"] * 8,
        ["    return a\n"] * 8,
        [[6] * (n - 1) + [eos] for n in lengths] + [[6] * 9],
        group=4,
    )
    assert found[:4] == pytest.approx([1.7, 0.7, 1.3, 0.3])
    assert found[4:] == pytest.approx([0.6, 1.2, 1.2, 5.0])


def test_trl_s_completions_get_our_trainers_reward(tokenizer) -> None:
    """A letter is worth 1 and another point for upper case; one that was cut
    loses its last line and `ppo.missing_eos_penalty`."""
    judging = by_reward(
        lambda prompts, texts: {
            "length": [float(len(text)) for text in texts],
            "upper": [float(text.isupper()) for text in texts],
        }
    )
    trainer = build_trainer(
        judging, ["x"], keep_length=False, missing_eos_penalty=0.5
    )
    eos = tokenizer.eos_token_id
    found = by_trl.trl_rewards(
        trainer,
        ["x", "x", "x"],
        ["AB", "a\nbc", ""],
        [[5, eos], [5, 6, 7], [eos]],
        group=3,
        trainer_state=None,
    )
    assert found == [3.0, 1.5, 0.0]


def test_the_fixer_s_own_text_is_preferred(judge) -> None:
    written = [
        ("def f(a):", "\n    return  a\n"),
        ("def g(a):", "\n    return a\n"),  # as the fixer has it
    ]
    assert by_trl.autofix_pairs(written, judge) == [
        {
            "prompt": "def f(a):",
            "chosen": "\n    return a\n",
            "rejected": "\n    return  a\n",
        }
    ]


def test_bodies_are_learnt_as_the_fixer_leaves_them(judge) -> None:
    texts = ["def f(a):\n    return  a\n", "def g(a):\n    return a\n"]
    labels = pd.DataFrame(
        {"source_id": ["1", "2"], "text": texts, "body_start": [9, 9]}
    )
    found = by_sft.formatted(labels, {}, judge)
    assert [*found["text"]] == ["def f(a):\n    return a\n", texts[1]]


def test_a_prompt_is_given_as_our_sampler_gives_it(tokenizer) -> None:
    judging = by_reward(lambda prompts, texts: [0.0] * len(texts))
    trainer = build_trainer(judging, ["x = 1"])
    text = by_trl.as_given(trainer, "x = 1")
    assert tokenizer.encode(text) == trainer.sampler.encode("x = 1")
