"""A linter that no reward has seen: ruff beyond flake8's rules.

PPO is rewarded by flake8, so flake8 alone cannot show that the code got
better rather than better at flake8.  ruff is asked for rules of families
that flake8's default plugins do not know.  Where ruff is the judge, flake8
takes its place, with the rules of its default configuration that ruff's does
not select.  Both read the text and never run it.
"""

import json
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

from stylerl.config import JudgeConfig
from stylerl.judge import Judge, ruff_engine

# Families that a function alone can answer to: naming, newer idioms,
# simplification, comprehensions, likely bugs, returns, needless code,
# performance.
RULES = ("N", "UP", "SIM", "C4", "B", "RET", "PIE", "PERF")


Findings = list[tuple[int, str]]  # the row and the code of each


def lint(table: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """The findings of another linter on each completion, as one column.

    `ruff`, or `flake8` where ruff judges, is a list of the codes found after
    the prompt; missing where it cannot read the text.

    Raises:
        StylerlError: a tool does not start.
    """
    texts = (table["prompt"] + table["judged"]).tolist()
    if judge.ruff is None:
        name, answers = "ruff", ruff_findings(texts, judge.width)
    else:
        seen = judge.ruff.rules
        name, answers = "flake8", flake8_findings(texts, judge.width, seen)
    codes = [
        None
        if findings is None
        else [code for row, code in findings if row > _rows_of(prompt)]
        for prompt, findings in zip(table["prompt"], answers, strict=True)
    ]
    return pd.DataFrame({name: codes}, index=table.index)


def flake8_findings(
    texts: Sequence[str], width: int, seen: Collection[str]
) -> list[Findings | None]:
    """What flake8 finds, but for rules `seen`; None where it cannot parse."""
    flake8 = Judge(JudgeConfig(max_line_length=max(20, width)))
    return [
        [(v.row, v.code) for v in verdict.violations if v.code not in seen]
        if verdict.parsed
        else None
        for verdict in flake8.verdicts(texts, desc="flake8")
    ]


def ruff_findings(texts: Sequence[str], width: int) -> list[Findings | None]:
    """What ruff finds by RULES; None where it cannot parse.

    Raises:
        StylerlError: ruff does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        for place, text in enumerate(texts):
            path = Path(folder, f"{place}.py")
            path.write_text(text, encoding="utf-8", newline="")
        answer = ruff_engine.run(
            [
                *("check", folder, "--isolated", "--no-cache"),
                *("--ignore-noqa", "--exit-zero"),
                *("--select", ",".join(RULES)),
                *("--line-length", str(width), "--target-version", "py311"),
                *("--output-format", "json"),
            ]
        )
    by_text: list[Findings | None] = [[] for _ in texts]
    for finding in json.loads(answer):
        place = int(Path(finding["filename"]).stem)
        findings, code = by_text[place], finding["code"]
        if code in (None, "invalid-syntax"):
            by_text[place] = None
        elif findings is not None:
            findings.append((finding["location"]["row"], code))
    return by_text


def _rows_of(prompt: str) -> int:
    """How many rows hold some of the prompt."""
    return prompt.count("\n") + (not prompt.endswith("\n"))
