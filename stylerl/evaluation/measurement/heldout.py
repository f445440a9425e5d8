"""Prompts and human code that no training saw.

The splits test and valid hold whole distributions (or files), so nothing of
them was in a stage's training data.  Settings are chosen on valid, so that
test is an honest estimate.  A prompt is taken only if its own lines
carry no violation: every completion starts clean.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from stylerl.config import EvaluateConfig
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.outcome import attribute
from stylerl.judge.place import Place

HUMAN_SNIPPETS = 100  # that bits per byte is measured on


class Prompt(NamedTuple):
    """A held-out prompt; `human` is its author's body, where known."""

    id: str
    text: str
    human: str | None
    above: str = ""  # what stands above it in its file, where known


def literal_prompts(texts: Sequence[str]) -> list[Prompt]:
    """Prompts as written in evaluate.prompt_texts, without an author."""
    return [
        Prompt(hashlib.sha256(text.encode()).hexdigest()[:16], text, None)
        for text in dict.fromkeys(texts)
    ]


def draw_prompts(
    snippets: pd.DataFrame,
    judge: Judge,
    config: EvaluateConfig,
    seed: int,
    places: Mapping[str, Place] | None = None,
    fits: Callable[[str], bool] = lambda prompt: True,
) -> list[Prompt]:
    """Draw `config.prompts` prompts of the split whose own lines are clean.

    Clean where they stand, if `places` has the snippet's id.  Not those that
    leave a model no room to answer, by `fits`.  Fewer where the split does
    not hold as many; `config.prompt_texts` instead where there are some.

    Raises:
        DataError: the split holds no prompt that is clean.
    """
    if config.prompt_texts:
        return literal_prompts(config.prompt_texts)
    places = places or {}
    count, split = config.prompts, config.split
    usable = _rows_of(snippets, split)
    usable = usable[usable["body_start"] > 0]
    drawn = usable.sample(frac=1.0, random_state=seed)
    prompts: dict[str, Prompt] = {}  # by text: none comes twice
    # Judge as many as are wanted at a time, until enough of them are clean.
    for begin in range(0, len(drawn), count):
        batch = drawn.iloc[begin:].head(count)
        items = [
            (places.get(name), whole[:start], whole[start:])
            for name, whole, start in zip(
                batch["id"], batch["text"], batch["body_start"], strict=True
            )
        ]
        verdicts = judge.in_place(items, desc="evaluate: prompts")
        for name, (place, text, body), verdict in zip(
            batch["id"], items, verdicts, strict=True
        ):
            charged = attribute(text, True, verdict.violations).prompt
            if verdict.parsed and not charged and fits(text):
                above = place.above if place else ""
                prompts.setdefault(text, Prompt(name, text, body, above))
        if len(prompts) >= count:
            break
    if not prompts:
        raise DataError(
            f"evaluation needs prompts without violations from the {split} "
            f"split; its {len(usable)} functions gave none: raise "
            "filter.test_share, lower evaluate.max_new_tokens, or write some "
            "in evaluate.prompt_texts"
        )
    return list(prompts.values())[:count]


def draw_human_texts(
    snippets: pd.DataFrame, config: EvaluateConfig, seed: int
) -> list[str]:
    """Draw whole snippets of the split, for bits per byte."""
    rows = _rows_of(snippets, config.split)
    count = min(HUMAN_SNIPPETS, len(rows))
    return rows.sample(count, random_state=seed)["text"].tolist()


def _rows_of(snippets: pd.DataFrame, split: str) -> pd.DataFrame:
    return snippets[snippets["split"] == split].sort_values("id")
