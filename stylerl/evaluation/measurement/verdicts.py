"""What the judge, and linters that do not judge, say of each completion."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stylerl.evaluation.measurement import external_linters
from stylerl.judge import Judge
from stylerl.judge.names import resolved_names
from stylerl.judge.outcome import assess
from stylerl.judge.place import Place
from stylerl.reward import substance


def judge_completions(
    table: pd.DataFrame,
    judge: Judge,
    places: Mapping[str, Place] | None = None,
) -> pd.DataFrame:
    """The table with what each linter says of each completion.

    The judge says it of the file that the prompt was cut from, where `places`
    has the prompt's id.

    Adds `outcome, parsed, score, rows, cols, codes, texts` (four lists, one
    entry a violation charged), `statements`, `trivial`, `names` (the share
    of those read that resolve, NaN where none is known), and of the linters
    that no reward has seen `ruff` (or `flake8`) and `black`.
    """
    where = [(places or {}).get(name) for name in table["prompt_id"]]
    items = zip(where, table["prompt"], table["judged"], strict=True)
    found: list[dict[str, Any]] = []
    verdicts = judge.in_place([*items], desc="evaluate: judge")
    rows = table.to_dict("records")
    for row, place, verdict in zip(rows, where, verdicts, strict=True):
        result = assess(row["prompt"], row["finished"], verdict)
        known = None if place is None else place.known
        around = None if place is None else place.around
        content = substance.measure(row["prompt"], row["judged"], around)
        found.append(
            {
                "outcome": str(result.outcome),
                "parsed": result.parsed,
                "score": round(result.score, 1),
                "rows": [each.row for each in result.violations],
                "cols": [each.col for each in result.violations],
                "codes": [each.code for each in result.violations],
                "texts": [each.text for each in result.violations],
                "statements": content.statements,
                "trivial": content.trivial,
                "names": _resolved(known, row["prompt"], row["judged"]),
            }
        )
    judged = pd.DataFrame(found, index=table.index)
    external = external_linters.lint(table, judge)
    columns = [table.drop(columns="judged"), judged, external]
    return pd.concat(columns, axis=1)


def _resolved(
    known: frozenset[str] | None, prompt: str, completion: str
) -> float:
    """The share of the names a completion reads that exist."""
    if known is None:
        return math.nan
    names = resolved_names(prompt, completion, known)
    return names.resolved / names.read if names.read else math.nan
