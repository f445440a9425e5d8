"""Two runs compared: differences by prompt, and what is not compared."""

import pandas as pd
import pytest
from test_metrics import broken, row

from stylerl.errors import DataError
from stylerl.evaluation import comparison

BASIS = {
    "judge": "j1",
    "snippets": "s1",
    "seed": 0,
    "temperature": 0.8,
    "split": "test",
}


def evaluation(*clean, basis=(), models=("sft", "ppo")):
    """A table in which the prompts named in `clean` are compliant."""
    table = pd.DataFrame(
        [
            row(model, prompt) if prompt in clean
            else broken(model, prompt, "E225")
            for model in models
            for prompt in "abcd"
        ]
    )  # fmt: skip
    table.attrs = BASIS | dict(basis)
    return table


def test_the_difference_is_second_less_first():
    # compliant: prompts a, then a, b, c: 0.25 and 0.75.  By prompt the
    # differences are 0, 1, 1, 0; a resample of four of them has any mean
    # from 0 to 1, each end with probability 1/16 > 2.5%.
    gain = comparison.compare(evaluation("a"), evaluation(*"abc"))
    assert gain["compliance"] == 0.5
    assert (gain["compliance_low"], gain["compliance_high"]) == (0.0, 1.0)
    assert gain["violations"] == -0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judge": "j2"}, "judge, j1 and j2"),
        ({"snippets": "s2"}, "snippets, s1 and s2"),
        ({"seed": 1}, "seed, 0 and 1"),
        ({"temperature": 1.0}, "temperature, 0.8 and 1.0"),
        ({"prompts": 9}, "prompts, None and 9"),
    ],
)
def test_what_was_measured_otherwise_is_refused(change, words):
    with pytest.raises(DataError, match=words):
        comparison.compare(evaluation("a"), evaluation("a", basis=change))


def test_other_prompts_are_refused():
    other = evaluation("a")
    other["prompt"] = "def g(y):"
    with pytest.raises(DataError, match="differ in the prompts: evaluate"):
        comparison.compare(evaluation("a"), other)


def test_a_table_of_another_version_is_refused():
    older = evaluation("a").drop(columns="outcome")
    with pytest.raises(DataError, match="column .outcome.: another version"):
        comparison.compare(older, evaluation("a"))
