"""Prompts to learn from: signatures of functions that SFT has not read."""

import pandas as pd


def unread_prompts(labels: pd.DataFrame, split: str, seed: int) -> list[str]:
    """The prompts of a split's other functions, each once, shuffled.

    SFT reads the compliant ones.  Of what is left, bodies were corrupted or
    do not comply; as in the evaluation, nobody has chosen prompts whose
    authors comply, which are the easier ones.
    """
    usable = labels[
        (labels["split"] == split)
        & ~labels["compliant"]
        & (labels["body_start"] > 0)
    ]
    rows = usable.sample(frac=1.0, random_state=seed)
    texts = zip(rows["text"], rows["body_start"], strict=True)
    return list(dict.fromkeys(text[:start] for text, start in texts))
