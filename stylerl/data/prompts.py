"""Prompts from labelled snippets: the signatures of compliant functions."""

import pandas as pd


def compliant_prompts(
    labels: pd.DataFrame, split: str, seed: int
) -> list[str]:
    """The prompts of a split's compliant functions, each once, shuffled."""
    usable = labels[
        (labels["split"] == split)
        & labels["compliant"]
        & (labels["body_start"] > 0)
    ]
    rows = usable.sample(frac=1.0, random_state=seed)
    texts = zip(rows["text"], rows["body_start"], strict=True)
    return list(dict.fromkeys(text[:start] for text, start in texts))
