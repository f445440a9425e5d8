"""Prompts and human code of the test split, and nothing else."""

import pandas as pd
import pytest

from stylerl.config import EvaluateConfig
from stylerl.errors import DataError
from stylerl.evaluation.measurement.heldout import (
    draw_human_texts,
    draw_prompts,
    literal_prompts,
)

CLEAN = "def f{}(a, b):\n"
BODY = "    return a+b ;\n"  # E203, E225 and E703 are the body's own


def snippets(*rows):
    """A table of (prompt, body, split); no prompt makes a whole file."""
    return pd.DataFrame(
        {
            "id": [f"{n:016}" for n in range(len(rows))],
            "text": [prompt + body for prompt, body, _ in rows],
            "body_start": [len(prompt) or -1 for prompt, _, _ in rows],
            "split": [split for _, _, split in rows],
        }
    )


def few(prompts, split="test"):
    """So many prompts, or human texts, of a split."""
    return EvaluateConfig(split=split, prompts=prompts)


def test_only_clean_prompts_of_functions_in_the_test_split(judge):
    table = snippets(
        (CLEAN.format(0), BODY, "test"),
        ("def g(a,b):\n", BODY, "test"),  # E231 stands in the prompt
        (CLEAN.format(1), BODY, "train"),
        (CLEAN.format(2), BODY, "valid"),
        ("", "x = 1\n", "test"),  # a whole file has no prompt
        (CLEAN.format(0), "    return b\n", "test"),  # the same prompt
    )

    (prompt,) = draw_prompts(table, judge, few(10), seed=0)

    assert prompt.text == CLEAN.format(0)
    assert prompt.human in (BODY, "    return b\n")
    (other,) = draw_prompts(table, judge, few(10, "valid"), seed=0)
    assert other.text == CLEAN.format(2)


def test_a_prompt_that_leaves_no_room_is_passed_over(judge):
    """The prompts have 15 and 29 characters."""
    long = "def f(" + "a" * 20 + "):\n"
    table = snippets((CLEAN.format(10), BODY, "test"), (long, BODY, "test"))

    def drawn(room):
        found = draw_prompts(
            table, judge, few(10), 0, fits=lambda text: len(text) <= room
        )
        return [prompt.text for prompt in found]

    assert drawn(room=20) == [CLEAN.format(10)]
    assert len(drawn(room=30)) == 2
    with pytest.raises(DataError, match="lower evaluate.max_new_tokens"):
        drawn(room=5)


def test_the_draw_depends_on_the_seed_alone(judge):
    rows = [(CLEAN.format(n), BODY, "test") for n in range(30)]
    table = snippets(*rows)

    drawn, again, other = (
        [prompt.id for prompt in draw_prompts(t, judge, few(5), seed)]
        for t, seed in ((table, 1), (table.iloc[::-1], 1), (table, 2))
    )

    assert len(set(drawn)) == 5
    assert drawn == again
    assert drawn != other


def test_no_clean_prompt_is_an_error_with_a_remedy(judge):
    table = snippets(("def g(a,b):\n", BODY, "test"))

    with pytest.raises(DataError, match="its 1 functions gave none"):
        draw_prompts(table, judge, few(5), seed=0)
    with pytest.raises(DataError, match="evaluate.prompt_texts"):
        draw_prompts(table.iloc[:0], judge, few(5), seed=0)


def test_literal_prompts_stay_as_they_are():
    texts = ["def add(a, b):", "class Person:\n"]
    first, second = literal_prompts([*texts, texts[0]])  # one is there twice

    assert (first.text, first.human) == ("def add(a, b):", None)
    assert first.id != second.id


def test_human_texts_are_whole_snippets_of_the_test_split():
    table = snippets(
        (CLEAN.format(0), BODY, "test"), (CLEAN.format(1), BODY, "train")
    )

    assert draw_human_texts(table, few(5), seed=0) == [CLEAN.format(0) + BODY]
    assert draw_human_texts(table, few(5, "valid"), seed=0) == []
