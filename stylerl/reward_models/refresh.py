"""Rollouts of a policy as training data, labelled by the judge.

A reward model is right about what it has seen; a policy that has learnt
writes something else (Stiennon et al., arXiv 2009.01325, section 3.1, who
collect new comparisons from the newest policy).  The stage `ppo` leaves
completions of the policy it made; `reward.rollouts` names such a file.
"""

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stylerl import storage
from stylerl.judge.outcome import Outcome, assess
from stylerl.reward_models.preference_pair import Preference

if TYPE_CHECKING:
    from stylerl.judge import Judge

KINDS = {"prompt": str, "completion": str, "finished": bool}
HELD_OUT = 5  # one prompt of so many measures


def read(path: Path) -> list[dict[str, Any]]:
    """The rollouts of a JSON lines file: prompt, completion, finished.

    Raises:
        DataError: the file is missing, or a line is no such object.
    """
    remedy = (
        "copy artifacts/ppo/rollouts.jsonl there (reward.rollouts), or an "
        "empty file for none"
    )
    rows = storage.read_json_lines(path, KINDS, remedy)
    return [{name: row[name] for name in KINDS} for _, row in rows]


def label(rollouts: list[dict[str, Any]], judge: "Judge") -> pd.DataFrame:
    """Each distinct rollout with the judge's verdict, as labels.parquet.

    Violations of the prompt are not charged.  A completion that was cut is
    judged by its whole lines, the text that a reward model is shown.  A
    fifth of the prompts, fixed by their text, is held out (`valid`).
    """
    unique = {(row["prompt"], row["completion"]): None for row in rollouts}
    items = [(None, *pair) for pair in unique]
    verdicts = judge.in_place(items, desc="reward: rollouts")
    rows = []
    for (prompt, completion), verdict in zip(unique, verdicts, strict=True):
        found = assess(prompt, True, verdict)
        held_out = zlib.crc32(prompt.encode("utf-8", "replace")) % HELD_OUT
        rows.append(
            {
                "text": prompt + completion,
                "prompt": prompt,
                "split": "train" if held_out else "valid",
                "compliant": found.outcome is Outcome.COMPLIANT,
                "score": found.score,
            }
        )
    columns = ["text", "prompt", "split", "compliant", "score"]
    return pd.DataFrame(rows, columns=columns)


def pairs(labelled: pd.DataFrame) -> list[Preference]:
    """For each prompt its best and its worst rollout, where they differ."""
    found = []
    for _, rows in labelled.groupby("prompt", sort=True):
        ordered = rows.sort_values("score", kind="stable")
        worst, best = ordered.iloc[0], ordered.iloc[-1]
        if best["score"] > worst["score"]:
            found.append(Preference("", best["text"], worst["text"]))
    return found
