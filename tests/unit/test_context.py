"""What stands above a prompt: whole lines, the nearest, within a budget."""

import pytest
from transformers import AutoModelForCausalLM

from stylerl.lm.context import (
    PromptEncoder,
    context_of,
    nearest_lines,
    tag_with_context,
)

ABOVE = """import os


class Shop:
    name = None

    open = True
"""
PROMPT = "    def close(self):\n"


def encoded(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def test_every_budget_gets_the_last_whole_lines_that_fit(tokenizer):
    lines = ABOVE.splitlines(keepends=True)
    ends = {"".join(lines[i:]) for i in range(len(lines) + 1)}
    for budget in range(len(encoded(tokenizer, ABOVE)) + 3):
        ids = nearest_lines(tokenizer, ABOVE, budget)
        assert len(ids) <= budget
        assert tokenizer.decode(ids) in ends
    assert tokenizer.decode(nearest_lines(tokenizer, ABOVE, 1000)) == ABOVE


def test_a_line_that_does_not_fit_hides_what_is_above_it(tokenizer):
    last = "    open = True\n"
    room = len(encoded(tokenizer, last))
    assert tokenizer.decode(nearest_lines(tokenizer, ABOVE, room)) == last
    assert nearest_lines(tokenizer, ABOVE, room - 1) == []
    assert nearest_lines(tokenizer, "", 100) == []


def test_lines_end_where_python_ends_them(tokenizer):
    last = "b = '\u2028'\n"
    room = len(encoded(tokenizer, last))
    ids = nearest_lines(tokenizer, "a = '\f'\n" + last, room)
    assert tokenizer.decode(ids) == last
    assert nearest_lines(tokenizer, last, room - 1) == []


def test_context_stands_between_the_first_token_and_the_prompt(tokenizer):
    encode = PromptEncoder(tokenizer, 1000, {PROMPT: ABOVE})
    first, *rest = encode(PROMPT)
    assert first in (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert rest == encoded(tokenizer, ABOVE) + encoded(tokenizer, PROMPT)
    other = "def other():\n"
    assert encode(other)[1:] == encoded(tokenizer, other)
    none = PromptEncoder(tokenizer, 0, {PROMPT: ABOVE})
    assert none(PROMPT)[1:] == encoded(tokenizer, PROMPT)


@pytest.mark.parametrize("budget", [0, 64])
def test_a_model_remembers_its_budget(tiny_llama, tmp_path, budget):
    assert context_of(tiny_llama) == 0
    tag_with_context(tiny_llama, budget)
    tiny_llama.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert context_of(loaded) == budget
