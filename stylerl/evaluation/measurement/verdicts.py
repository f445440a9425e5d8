"""What flake8, ruff and black say of each completion."""

from typing import Any

import pandas as pd

from stylerl.evaluation.measurement import external_linters
from stylerl.judge import Judge
from stylerl.judge.outcome import assess
from stylerl.reward import substance


def judge_completions(table: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """The table with what each linter says of each completion.

    Adds `outcome, parsed, score, rows, cols, codes, texts` (four lists, one
    entry a violation charged), `statements` and `trivial`, and of the linters
    that no reward has seen `ruff` and `black`.
    """
    texts = (table["prompt"] + table["judged"]).tolist()
    found: list[dict[str, Any]] = []
    verdicts = judge.verdicts(texts, desc="evaluate: judge")
    rows = table.to_dict("records")
    for row, verdict in zip(rows, verdicts, strict=True):
        result = assess(row["prompt"], row["finished"], verdict)
        content = substance.measure(row["prompt"], row["judged"])
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
            }
        )
    judged = pd.DataFrame(found, index=table.index)
    external = external_linters.lint(table, judge.config.max_line_length)
    columns = [table.drop(columns="judged"), judged, external]
    return pd.concat(columns, axis=1)
