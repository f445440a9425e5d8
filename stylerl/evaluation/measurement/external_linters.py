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
from typing import Any, NamedTuple

import pandas as pd

from stylerl.config import JudgeConfig
from stylerl.judge import Judge, ruff_engine

# Families that a function alone can answer to: naming, newer idioms,
# simplification, comprehensions, likely bugs, returns, needless code,
# performance; docstrings.
RULES = ("N", "UP", "SIM", "C4", "B", "RET", "PIE", "PERF", "D")
SILENT = ("D203", "D213")  # contradict D211 and D212


class Draft(NamedTuple):
    """Text to lint, and how many of its first rows do not count."""

    text: str
    prompt_rows: int


def lint(table: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """What another than the judge says of each completion, in a column.

    `ruff`, or `flake8` where ruff judges, is a list of the codes found after
    the prompt; missing where it cannot read the text.

    Raises:
        StylerlError: a tool does not start.
    """
    drafts = [
        Draft(prompt + judged, _rows_of(prompt))
        for prompt, judged in zip(
            table["prompt"], table["judged"], strict=True
        )
    ]
    if judge.ruff is None:
        found = {"ruff": find_ruff_codes(drafts, judge.width)}
    else:
        rules = judge.ruff.settings.rules
        found = {"flake8": find_flake8_codes(drafts, judge.width, rules)}
    return pd.DataFrame(found, index=table.index)


def find_flake8_codes(
    drafts: Sequence[Draft], width: int, seen: Collection[str]
) -> list[list[str] | None]:
    """The codes of flake8's found after each prompt, but for those `seen`.

    None where flake8 cannot parse.
    """
    flake8 = Judge(JudgeConfig(max_line_length=max(20, width)))
    verdicts = flake8.verdicts([d.text for d in drafts], desc="flake8")
    return [
        [
            each.code
            for each in verdict.violations
            if each.row > draft.prompt_rows and each.code not in seen
        ]
        if verdict.parsed
        else None
        for draft, verdict in zip(drafts, verdicts, strict=True)
    ]


def find_ruff_codes(
    drafts: Sequence[Draft], width: int
) -> list[list[str] | None]:
    """The codes of RULES found after each prompt; None if ruff cannot parse.

    Raises:
        StylerlError: ruff does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        for place, draft in enumerate(drafts):
            path = Path(folder, f"{place}.py")
            path.write_text(draft.text, encoding="utf-8", newline="")
        findings = _run_ruff(folder, width)
    found: list[list[str] | None] = [[] for _ in drafts]
    for finding in findings:
        place = int(Path(finding["filename"]).stem)
        codes, row = found[place], finding["location"]["row"]
        if finding["code"] in (None, "invalid-syntax"):
            found[place] = None
        elif codes is not None and row > drafts[place].prompt_rows:
            codes.append(finding["code"])
    return found


def _rows_of(prompt: str) -> int:
    """How many rows hold some of the prompt."""
    return prompt.count("\n") + (not prompt.endswith("\n"))


def _run_ruff(folder: str, width: int) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(
        ruff_engine.run(
            [
                *("check", folder, "--isolated", "--no-cache"),
                *("--ignore-noqa", "--exit-zero"),
                *("--select", ",".join(RULES), "--ignore", ",".join(SILENT)),
                *("--line-length", str(width), "--target-version", "py310"),
                *("--output-format", "json"),
            ]
        )
    )
    return answer
