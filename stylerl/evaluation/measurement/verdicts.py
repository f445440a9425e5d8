"""The judge's verdict and other linters' findings on each completion.

The judge is asked twice: of what the model wrote, and of what a fixer made
of it.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stylerl.evaluation.measurement import external_linters
from stylerl.judge import Judge, fixer
from stylerl.judge.names import resolved_names
from stylerl.judge.outcome import assess
from stylerl.judge.place import Place
from stylerl.reward.grade import grade_of


def judge_completions(
    table: pd.DataFrame,
    judge: Judge,
    places: Mapping[str, Place] | None = None,
) -> pd.DataFrame:
    """The table with columns for the verdict and the other findings.

    The judge says it of the file that the prompt was cut from, where `places`
    has the prompt's id.

    Adds `outcome, parsed, score, rows, cols, codes, texts` (four lists, one
    entry a violation charged), `fixed_outcome` and `fixed_codes` of the
    completion after the fixer, `reformatted` (the share of its lines that
    the fixer changed), `statements`, `trivial`, `names` (the share
    of those read that resolve, NaN where none is known), and of a linter that
    no reward has seen `ruff` (or `flake8`).
    """
    where = [(places or {}).get(name) for name in table["prompt_id"]]
    items = [*zip(where, table["prompt"], table["judged"], strict=True)]
    verdict_rows: list[dict[str, Any]] = []
    verdicts = judge.in_place(items, desc="evaluate: judge")
    mended = [
        (place, prompt, text)
        for (place, prompt, _), text in zip(
            items, fixer.fix(items, judge), strict=True
        )
    ]
    second = judge.in_place(mended, desc="evaluate: judge what is fixed")
    rows = table.to_dict("records")
    for row, (place, _, text), verdict, later in zip(
        rows, mended, verdicts, second, strict=True
    ):
        prompt, judged, done = row["prompt"], row["judged"], row["finished"]
        graded = grade_of(prompt, judged, done, verdict)
        result = graded.assessment
        fixed = assess(prompt, done, later)
        verdict_rows.append(
            {
                "outcome": str(result.outcome),
                "parsed": result.parsed,
                "score": round(result.score, 1),
                "rows": [v.row for v in result.violations],
                "cols": [v.col for v in result.violations],
                "codes": [v.code for v in result.violations],
                "texts": [v.text for v in result.violations],
                "fixed_outcome": str(fixed.outcome),
                "fixed_codes": [v.code for v in fixed.violations],
                "reformatted": fixer.changed_share(judged, text),
                "statements": graded.statements,
                "trivial": graded.trivial,
                "names": _resolved(place, prompt, judged),
            }
        )
    told = pd.DataFrame(verdict_rows, index=table.index)
    external = external_linters.lint(table, judge)
    columns = [table.drop(columns="judged"), told, external]
    return pd.concat(columns, axis=1)


def _resolved(place: Place | None, prompt: str, completion: str) -> float:
    """The share of the names a completion reads that exist."""
    if place is None or place.file.known is None:
        return math.nan
    names = resolved_names(prompt, completion, place.file.known)
    return names.resolved / names.read if names.read else math.nan
