"""Prompts to learn from: the starts of functions that SFT has not read."""

import ast
import random
from collections.abc import Iterable, Mapping

import pandas as pd

from stylerl.judge.names import parse
from stylerl.judge.place import Place

# Of the prompts of PPO that end inside a body, as an editor's do: a policy
# that only ever begins bodies learns to write nothing after given lines
# (docs/decisions/0039-inside.md).
INSIDE = 0.5


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


def some_inside(
    prompts: Iterable[str], places: Mapping[str, Place], seed: int
) -> dict[str, Place | None]:
    """Prompts, a share of INSIDE with the first lines of their bodies.

    Which of them, and how many lines, depends on the seed and the prompt
    alone.  One whose body is a single statement, or whose place is not
    known, stays as it is.

    Returns:
        the prompts, in their order, with their places.
    """
    found: dict[str, Place | None] = {}
    for prompt in prompts:
        place = places.get(prompt)
        rng = random.Random(f"{seed}:{prompt}")
        if place is not None and rng.random() < INSIDE:
            heads = heads_inside(place.function, prompt)
            if heads:
                prompt = rng.choice(heads)
                place = place.continued(prompt)
        found[prompt] = place
    return found


def heads_inside(function: str, prompt: str) -> list[str]:
    """A function up to each of its statements but the body's first.

    Without the line end, as prompts are.
    """
    last = prompt.rstrip().count("\n") + 1
    rows = {
        node.lineno
        for node in ast.walk(parse(function))
        if isinstance(node, ast.stmt) and node.lineno > last
    }
    lines = function.split("\n")
    return ["\n".join(lines[: row - 1]).rstrip() for row in sorted(rows)[1:]]
