"""A reward that junk does not please: every kind of it, on 96 prompts.

The prompts and the authors' bodies are functions of this package's own
source, cut as the corpus cuts them; the reference writes what the authors
wrote.  All of it has full style, as this package complies, and junk can.
"""

from pathlib import Path

import numpy as np
import pytest
from junk import KINDS, body

from stylerl.config import FilterConfig, PPOConfig
from stylerl.data.corpus import extract
from stylerl.reward import substance
from stylerl.reward.composite import compose

SOURCE = Path(__file__).parents[2] / "stylerl"
PROMPTS = 96


@pytest.fixture(scope="module")
def functions():
    """Prompts and authors' bodies, spread evenly over the package."""
    cut = (
        snippet
        for path in sorted(SOURCE.rglob("*.py"))
        for snippet in extract(path.read_bytes(), FilterConfig()).snippets
        if snippet.body_start > 0
    )
    found = {s.text[: s.body_start]: s.text[s.body_start :] for s in cut}
    step = len(found) // PROMPTS
    return dict([*found.items()][: step * PROMPTS : step])


def flawless(prompts, completions):
    """Style in full, which is the most that the linter gives."""
    return [1.0] * len(completions)


@pytest.fixture(scope="module")
def total(functions):
    """The default reward of one completion for each prompt, before the KL."""
    config = PPOConfig()
    expected = substance.expected_sizes(
        {prompt: [text] for prompt, text in functions.items()},
        target=config.substance_target,
    )
    reward = compose(config.reward, lambda _: flawless, expected)

    def total(completions):
        parts = reward(list(functions), completions)
        return np.sum([*parts.values()], axis=0)

    return total


@pytest.fixture(scope="module")
def authors(functions, total):
    return total(list(functions.values()))


def test_the_authors_get_most_of_the_reward(authors):
    """2.5 is all of it: 1.5 of style, 1 of substance."""
    assert len(authors) == PROMPTS
    assert authors.mean() > 2.1


@pytest.mark.parametrize("kind", KINDS)
def test_junk_gets_little_and_never_more(kind, functions, total, authors):
    """At most 60% of the authors' mean; above an author's own body on at
    most 5% of prompts: 4 of 96."""
    found = total([body(kind, prompt) for prompt in functions])
    assert found.mean() <= 0.6 * authors.mean()
    assert (found > authors + 1e-9).sum() <= 4


CONSTANT = [name for name in KINDS if not set("XYZF") & set(KINDS[name])]


def test_what_reads_nothing_is_trivial():
    """So the share of compliant bodies that are not trivial excludes it."""
    kinds = ["minus signs", "tildes", "tuple of numbers", "print of numbers"]
    for name in kinds:
        assert name in CONSTANT
        assert substance.measure("def f(a):", body(name, "def f(a):")).trivial


def test_one_line_is_not_worth_a_page(functions, total, authors):
    lines = ["\n    return str\n"] * PROMPTS
    assert total(lines).mean() < 0.4 * authors.mean()
