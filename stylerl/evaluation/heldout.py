"""What no training saw: prompts to complete, and human code to remember.

The test split holds whole distributions (or files), so nothing of them was
in a stage's training data.  A prompt is taken only if its own lines carry
no violation: every completion starts clean.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.outcome import divide


class Prompt(NamedTuple):
    """A held-out prompt; `human` is how its author went on, if known."""

    id: str
    text: str
    human: str | None


def literal_prompts(texts: Sequence[str]) -> list[Prompt]:
    """Prompts as written in evaluate.prompt_texts, without an author."""
    return [
        Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text, None)
        for text in texts
    ]


def held_out_prompts(
    snippets: pd.DataFrame, judge: Judge, count: int, seed: int
) -> list[Prompt]:
    """Draw `count` prompts of the test split whose own lines are clean.

    Fewer where the split does not hold as many.

    Raises:
        DataError: the split holds no prompt that is clean.
    """
    test = _test_split(snippets)
    test = test[test["body_start"] > 0]
    drawn = test.sample(frac=1.0, random_state=seed)
    prompts: dict[str, Prompt] = {}
    for start in range(0, len(drawn), count):
        batch = drawn.iloc[start:].head(count)
        verdicts = judge.verdicts(batch["text"], desc="evaluate: prompts")
        rows = batch.to_dict("records")
        for row, verdict in zip(rows, verdicts, strict=True):
            whole, start = row["text"], row["body_start"]
            text = whole[:start]
            theirs = divide(text, True, verdict.violations).prompt
            if verdict.parsed and not theirs:
                prompts.setdefault(
                    text, Prompt(row["id"], text, whole[start:])
                )
        if len(prompts) >= count:
            break
    if not prompts:
        raise DataError(
            "evaluation needs prompts without violations from the test "
            f"split; its {len(test)} functions gave none: raise "
            "filter.test_share, or write some in evaluate.prompt_texts"
        )
    return list(prompts.values())[:count]


def human_texts(snippets: pd.DataFrame, count: int, seed: int) -> list[str]:
    """Draw whole snippets of the test split, for bits per byte.

    Raises:
        DataError: the split is empty.
    """
    test = _test_split(snippets)
    if test.empty:
        raise DataError(
            "bits per byte needs snippets of the test split; it has none: "
            "raise filter.test_share"
        )
    drawn = test.sample(min(count, len(test)), random_state=seed)
    return drawn["text"].tolist()


def _test_split(snippets: pd.DataFrame) -> pd.DataFrame:
    return snippets[snippets["split"] == "test"].sort_values("id")
