"""The best of n, and what the authors wrote."""

import pandas as pd
from test_metrics import row

from stylerl.evaluation.measurement import baselines


def test_the_best_of_n_is_the_first_of_the_best_rewarded():
    # a: of its first two, the second; of four, the fourth.  b has two
    # samples of equal reward, and no best of four.
    rewards = {"a": [0.1, 0.5, 0.2, 0.9], "b": [0.3, 0.3]}
    rows = pd.DataFrame(
        [
            row("sft", prompt, n, reward=reward, completion=f"{prompt}{n}")
            for prompt, given in rewards.items()
            for n, reward in enumerate(given)
        ]
    )

    two, four = (baselines.best_of(rows, n) for n in (2, 4))

    assert two["completion"].tolist() == ["a1", "b0"]
    assert four["completion"].tolist() == ["a3"]
    assert four["model"].tolist() == ["best_of_4"]
    assert four["kl"].isna().all()
