"""The best of n, and what the authors wrote."""

import pandas as pd
from test_metrics import row

from stylerl.config import EvaluateConfig
from stylerl.evaluation.measurement import baselines


def drawn(prompt, number, **values):
    """SFT's row of a sample; of those beyond the second, an extra one."""
    model = "sft" if number < 2 else "extra"
    text = f"{prompt}{number}"
    return row(model, prompt, number, completion=text, **values)


def test_the_best_of_n_is_the_first_of_the_best_rewarded():
    # a: of its first two, the second; of four, the fourth.  b has two
    # samples of equal reward, and no best of four.
    rewards = {"a": [0.1, 0.5, 0.2, 0.9], "b": [0.3, 0.3]}
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
    assert chosen["best_of_4"] == ["a3"]
    assert chosen["sft"] == ["a0", "a1", "b0", "b1"]
    assert "extra" not in chosen
    assert table[table["model"] == "best_of_4"]["kl"].isna().all()


def test_the_linter_chooses_what_complies_then_what_has_the_best_score():
    # a: the third complies; of the first two, the second breaks less.
    # An unfinished one may break no rule, and does not comply.
    outcomes = ["violations", "violations", "compliant", "unfinished"]
    scores = [0.7, 0.9, 1.0, 1.0]
    rows = pd.DataFrame(
        [
            drawn("a", n, outcome=outcome, score=score)
            for n, (outcome, score) in enumerate(
                zip(outcomes, scores, strict=True)
            )
        ]
    )

    table = baselines.choose(rows, EvaluateConfig(samples=2))

    chosen = table.set_index("model")["completion"]
    assert chosen["linter_best_of_2"] == "a1"
    assert chosen["linter_best_of_4"] == "a2"
    assert "best_of_2" not in chosen


def test_the_linter_chooses_of_ppo_too_from_as_many_samples():
    rows = pd.DataFrame(
        [
            row("ppo", "a", n, completion=f"a{n}", outcome=outcome)
            for n, outcome in enumerate(["violations", "compliant"])
        ]
    )

    table = baselines.choose(rows, EvaluateConfig(samples=2))
    alone = baselines.choose(rows[:1], EvaluateConfig(samples=1))

    best = table[table["model"] == "ppo_linter_best_of_2"]
    assert [*best["completion"]] == ["a1"]
    assert [*alone["model"]] == ["ppo"]
