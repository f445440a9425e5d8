"""The best of n, and what the authors wrote."""

import pandas as pd
from test_metrics import row

from stylerl.config import EvaluateConfig
from stylerl.evaluation.measurement import baselines


def drawn(prompt, number, model="sft", **values):
    """A model's row of a sample."""
    text = f"{prompt}{number}"
    return row(model, prompt, number, completion=text, **values)


def test_the_best_of_n_is_the_first_of_the_best_rewarded():
    # a: the second of two.  b has two samples of equal reward.
    rewards = {"a": [0.1, 0.5], "b": [0.3, 0.3]}
    rows = pd.DataFrame(
        [
            drawn(prompt, n)
            for prompt, given in rewards.items()
            for n in range(len(given))
        ]
    )

    def predict(texts):
        return [rewards[text[-2]][int(text[-1])] for text in texts]

    table = baselines.choose(rows, EvaluateConfig(samples=2), predict)

    chosen = table.groupby("model")["completion"].apply(list)
    assert chosen["best_of_2"] == ["a1", "b0"]
    assert chosen["sft"] == ["a0", "a1", "b0", "b1"]
    assert table[table["model"] == "best_of_2"]["kl"].isna().all()


def test_the_linter_chooses_what_complies_then_what_has_the_best_score():
    # a: the third complies.  An unfinished one may break no rule, and does
    # not comply.  b: the second breaks less.  PPO's are chosen from too.
    samples = {
        "a": [("violations", 0.7), ("unfinished", 1.0), ("compliant", 1.0)],
        "b": [("violations", 0.7), ("violations", 0.9), ("unparsable", 0.0)],
    }
    rows = pd.DataFrame(
        [
            drawn(prompt, n, model, outcome=outcome, score=score)
            for model in ("sft", "ppo")
            for prompt, outcomes in samples.items()
            for n, (outcome, score) in enumerate(outcomes)
        ]
    )

    table = baselines.choose(rows, EvaluateConfig(samples=3))

    chosen = table.groupby("model")["completion"].apply(list)
    assert chosen["linter_best_of_3"] == ["a2", "b1"]
    assert chosen["ppo_linter_best_of_3"] == ["a2", "b1"]
    assert "best_of_3" not in chosen


def test_of_a_single_sample_nothing_is_chosen():
    rows = pd.DataFrame([drawn("a", 0)])
    assert baselines.choose(rows, EvaluateConfig(samples=1)) is rows
