"""Completions for the report: at random, PPO's worst, and some of each rule.

A reader picks one of these; a sample is shown for each of them that it fits.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from stylerl.evaluation import display
from stylerl.judge.verdict import Violation
from stylerl.report import markup

RANDOM_SAMPLES = 10
WORST_SAMPLES = 5
RULES = 12  # the first of the table that SFT or PPO broke
OF_A_RULE = 3  # completions to look for, besides those shown anyway

Key = tuple[str, int]  # a prompt, and the number of the sample


class Side(NamedTuple):
    """One model's completion of a prompt, ready to show."""

    label: str
    style: str
    outcome: str
    score: float
    pieces: Sequence[tuple[str, str | None]]  # text, message when underlined
    messages: Sequence[str]
    codes: frozenset[str]


class Sample(NamedTuple):
    """One prompt, what each model made of it, and where it is shown."""

    prompt: str
    sides: Sequence[Side]
    choices: Sequence[int]  # places in Gallery.choices


class Choice(NamedTuple):
    """What a reader may pick, and what it is."""

    label: str
    meaning: str
    samples: int


class Gallery(NamedTuple):
    """The choices, the first of which is shown at first; and all samples."""

    choices: Sequence[Choice]
    samples: Sequence[Sample]


def choose(
    completions: pd.DataFrame,
    rules: pd.DataFrame,
    seed: int,
    models: Mapping[str, str] = display.MODELS,
) -> Gallery:
    """Choose samples, under one choice or several.

    Args:
        completions: of the evaluation.
        rules: metrics/rules.csv; in its order the first are choices.
        seed: of what is drawn.
        models: those shown beside each other.
    """
    drawn, worst = draw_random(completions, seed), find_worst(completions)
    broken = _broken(completions, rules["rule"])
    keys = dict.fromkeys((*drawn, *worst))  # in order, each once
    for found in broken.values():
        several = pd.Series(found).sample(
            min(OF_A_RULE, len(found)), random_state=seed
        )
        keys |= dict.fromkeys(several)
    texts = dict(zip(rules["rule"], rules["text"], strict=True))
    names = ["at random", f"the worst of {models['ppo']}", *broken]
    meanings = [
        "drawn at random",
        f"where {models['ppo']} lost most of the style score to "
        f"{models['sft']}",
        *(f"{rule}: {texts[rule]}" for rule in broken),
    ]
    # What fits each choice: one that a model breaks a rule in fits the rule.
    samples = []
    for key in keys:
        sides, prompt = _sides(completions, key, models)
        charged = {code for side in sides for code in side.codes}
        fits = [key in drawn, key in worst, *(r in charged for r in broken)]
        numbers = [number for number, fit in enumerate(fits) if fit]
        samples.append(Sample(prompt, sides, numbers))
    counts = [
        sum(number in sample.choices for sample in samples)
        for number in range(len(names))
    ]
    return Gallery(
        [Choice(*each) for each in zip(names, meanings, counts, strict=True)],
        samples,
    )


def draw_random(completions: pd.DataFrame, seed: int) -> list[Key]:
    """The first completion of prompts that are drawn at random."""
    prompts = completions["prompt_id"].drop_duplicates().sort_values()
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


def _broken(
    completions: pd.DataFrame, rules: pd.Series
) -> dict[str, list[Key]]:
    """Where SFT or PPO broke each of the first rules that they broke."""
    ours = completions[completions["model"].isin(["sft", "ppo"])]
    rows = ours[["prompt_id", "sample", "codes"]].explode("codes")
    places = rows.drop_duplicates().sort_values(["prompt_id", "sample"])
    found = {
        rule: list(zip(own["prompt_id"], own["sample"], strict=True))
        for rule, own in places.groupby("codes", sort=False)
    }
    kept = [rule for rule in rules if rule in found][:RULES]
    return {rule: [*dict.fromkeys(found[rule])] for rule in kept}


def _sides(
    completions: pd.DataFrame, key: Key, models: Mapping[str, str]
) -> tuple[list[Side], str]:
    """Each model's completion, and the prompt."""
    prompt_id, number = key
    chosen = completions[
        (completions["prompt_id"] == prompt_id)
        & (completions["sample"] == number)
    ].set_index("model")
    sides = [
        _side(label, model, chosen.loc[model])
        for model, label in models.items()
    ]
    return sides, chosen.iloc[0]["prompt"]


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
        frozenset(v.code for v in violations),
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
