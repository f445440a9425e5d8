"""Completions for the report: some at random, and PPO's worst."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from stylerl.evaluation import display
from stylerl.judge.verdict import Violation
from stylerl.report import markup

RANDOM_SAMPLES = 20
WORST_SAMPLES = 5

Key = tuple[str, int]  # a prompt, and the number of the sample


class Side(NamedTuple):
    """One model's completion of a prompt, ready to show."""

    label: str
    style: str
    outcome: str
    score: float
    pieces: Sequence[tuple[str, str | None]]  # text, message when underlined
    messages: Sequence[str]


class Sample(NamedTuple):
    """One prompt, and the completions of it."""

    prompt: str
    sides: Sequence[Side]


def choose(completions: pd.DataFrame, seed: int) -> dict[str, list[Sample]]:
    """The samples of the report, by heading; what is random by the seed."""
    worst = "Where PPO lost most of the style score to SFT"
    chosen = {
        "Drawn at random": draw_random(completions, seed),
        worst: find_worst(completions),
    }
    return {
        words: [_sample(completions, key) for key in keys]
        for words, keys in chosen.items()
    }


def draw_random(completions: pd.DataFrame, seed: int) -> list[Key]:
    """The first completion of prompts that are drawn at random.

    Of those that the base completed too.
    """
    by_base = completions[completions["model"] == "base"]
    prompts = by_base["prompt_id"].drop_duplicates().sort_values()
    drawn = prompts.sample(
        min(RANDOM_SAMPLES, len(prompts)), random_state=seed
    )
    return [(prompt, 0) for prompt in drawn]


def find_worst(completions: pd.DataFrame) -> list[Key]:
    """The completions where PPO lost most of the style score to SFT."""
    keys = ["prompt_id", "sample"]
    scores = completions.pivot_table(
        index=keys, columns="model", values="score"
    )
    change = (scores["ppo"] - scores["sft"]).rename("change").reset_index()
    worst = change.sort_values(["change", *keys]).head(WORST_SAMPLES)
    worst = worst[worst["change"] < 0]
    return list(zip(worst["prompt_id"], worst["sample"], strict=True))


def _sample(completions: pd.DataFrame, key: Key) -> Sample:
    """A prompt, and the completion of each model that was asked for one."""
    prompt_id, number = key
    chosen = completions[
        (completions["prompt_id"] == prompt_id)
        & (completions["sample"] == number)
    ].set_index("model")
    sides = [
        _side(label, model, chosen.loc[model])
        for model, label in display.MODELS.items()
        if model in chosen.index
    ]
    return Sample(chosen.iloc[0]["prompt"], sides)


def _side(label: str, style: str, row: Any) -> Side:
    violations = [
        Violation(int(r), int(c), code, text)
        for r, c, code, text in zip(
            row["rows"], row["cols"], row["codes"], row["texts"], strict=True
        )
    ]
    whole = row["prompt"] + row["completion"]
    return Side(
        label,
        style,
        row["outcome"],
        float(row["score"]),
        pieces(whole, len(row["prompt"]), violations),
        [f"{v.row}:{v.col} {v.code} {v.text}" for v in violations],
    )


def pieces(
    text: str, start: int, violations: Sequence[Violation]
) -> list[tuple[str, str | None]]:
    """`text[start:]` cut into stretches, each with its message or None."""
    cut: list[tuple[str, str | None]] = []
    place = start
    for span in markup.spans(text, violations):
        first, last = max(span.start, place), max(span.end, place)
        cut.append((text[place:first], None))
        cut.append((text[first:last], "; ".join(span.messages)))
        place = last
    cut.append((text[place:], None))
    return [(words, note) for words, note in cut if words or note]
