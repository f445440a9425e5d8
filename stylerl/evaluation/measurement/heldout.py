"""Prompts and human code that no training saw.

The splits test and valid hold whole distributions (or files), so nothing of
them was in a stage's training data.  Settings are chosen on valid, so that
test is an honest estimate.  A prompt is taken only if its own lines
carry no violation: every completion starts clean.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from stylerl.config import EvaluateConfig
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.outcome import attribute


class Prompt(NamedTuple):
    """A held-out prompt; `human` is its author's body, where known."""

    id: str
    text: str
    human: str | None


def literal_prompts(texts: Sequence[str]) -> list[Prompt]:
    """Prompts as written in evaluate.prompt_texts, without an author."""
    return [
        Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text, None)
        for text in texts
    ]


def draw_prompts(
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
) -> list[Prompt]:
    """Draw `config.prompts` prompts of the split whose own lines are clean.

    Fewer where the split does not hold as many; `config.prompt_texts` instead
    where there are some.

    Raises:
        DataError: the split holds no prompt that is clean.
    """
    if config.prompt_texts:
        return literal_prompts(config.prompt_texts)
    count, split = config.prompts, config.split
    usable = _rows_of(snippets, split)
    usable = usable[usable["body_start"] > 0]
    drawn = usable.sample(frac=1.0, random_state=seed)
    prompts: dict[str, Prompt] = {}  # by text: none comes twice
    # Judge as many as are wanted at a time, until enough of them are clean.
    for begin in range(0, len(drawn), count):
        batch = drawn.iloc[begin:].head(count)
        verdicts = judge.verdicts(batch["text"], desc="evaluate: prompts")
        rows = batch.to_dict("records")
        for row, verdict in zip(rows, verdicts, strict=True):
            whole, start = row["text"], row["body_start"]
            text, body = whole[:start], whole[start:]
            theirs = attribute(text, True, verdict.violations).prompt
            if verdict.parsed and not theirs:
                prompts.setdefault(text, Prompt(row["id"], text, body))
        if len(prompts) >= count:
            break
    if not prompts:
        raise DataError(
            f"evaluation needs prompts without violations from the {split} "
            f"split; its {len(usable)} functions gave none: raise "
            f"filter.{split}_share, or write some in evaluate.prompt_texts"
        )
    return list(prompts.values())[:count]


def draw_human_texts(
    snippets: pd.DataFrame, config: EvaluateConfig, seed: int
) -> list[str]:
    """Draw whole snippets of the split, for bits per byte.

    Raises:
        DataError: the split is empty.
    """
    rows = _rows_of(snippets, config.split)
    if rows.empty:
        raise DataError(
            f"bits per byte needs snippets of the {config.split} split; it "
            f"has none: raise filter.{config.split}_share"
        )
    count = min(config.human_snippets, len(rows))
    return rows.sample(count, random_state=seed)["text"].tolist()


def _rows_of(snippets: pd.DataFrame, split: str) -> pd.DataFrame:
    return snippets[snippets["split"] == split].sort_values("id")
