"""Baselines on the same prompts: a formatter, a choice, and the human.

autopep8 on the base's text needs no training, so a model trained for style
should be worth its training; the best of n by the reward model is what that
reward is worth without PPO; the human's own text shows what the numbers are
on real code.  Each is a table as evaluation.py makes them, without KL.
"""

import math
import signal
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

import autopep8
import pandas as pd
from numpy.typing import ArrayLike
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from stylerl.evaluation.heldout import Prompt

SECONDS = 3.0  # of CPU; autopep8 may not come to an end on a model's code


class Draft(NamedTuple):
    """Text to format: only the rows behind the prompt's may change."""

    text: str
    prompt_rows: int


def formatted(
    table: pd.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    max_line_length: int,
) -> pd.DataFrame:
    """The baseline `autopep8`: the base's completions, formatted."""
    rows = table[table["model"] == "base"]
    prompts: list[str] = rows["prompt"].tolist()
    judged: list[str] = rows["judged"].tolist()
    drafts = [
        Draft(prompt + text, prompt.count("\n"))
        for prompt, text in zip(prompts, judged, strict=True)
    ]
    fixed = autoformat(drafts, max_line_length)
    texts = [
        new.removeprefix(prompt) if new.startswith(prompt) else old
        for prompt, old, new in zip(prompts, judged, fixed, strict=True)
    ]
    return rows.assign(
        model="autopep8",
        completion=texts,
        judged=texts,
        tokens=_count_tokens(tokenizer, texts),
        kl=math.nan,
    )


def written_by_humans(
    prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerBase
) -> pd.DataFrame:
    """The baseline `human`: how each prompt's author went on."""
    known = [prompt for prompt in prompts if prompt.human is not None]
    texts = [str(prompt.human) for prompt in known]
    return pd.DataFrame(
        {
            "model": "human",
            "prompt_id": [prompt.id for prompt in known],
            "sample": 0,
            "prompt": [prompt.text for prompt in known],
            "completion": texts,
            "judged": texts,
            "finished": True,
            "tokens": _count_tokens(tokenizer, texts),
            "kl": math.nan,
        }
    )


def best_of(table: pd.DataFrame, scores: ArrayLike) -> pd.DataFrame:
    """The baseline `best_of_n`: of SFT's samples the best-scored one.

    `scores` are the reward model's, in the order of SFT's rows; the first
    of equals is taken.
    """
    rows = table[table["model"] == "sft"]
    ranked = pd.Series(scores, index=rows.index)
    best = ranked.groupby(rows["prompt_id"], sort=False).idxmax()
    return rows.loc[best].assign(model="best_of_n", sample=0, kl=math.nan)


def autoformat(drafts: Sequence[Draft], max_line_length: int) -> list[str]:
    """Each text after autopep8, aggressive level 1.

    A text that autopep8 crashes on, or does not finish within SECONDS of
    CPU time (a loaded machine must not change the result), comes back as it
    was.  Call it from the main thread: the limit is a signal.
    """
    previous = signal.signal(signal.SIGVTALRM, _give_up)
    try:
        bar = tqdm(drafts, "evaluate: autopep8", unit=" texts")
        return [_format(draft, max_line_length) for draft in bar]
    finally:
        signal.signal(signal.SIGVTALRM, previous)


def _format(draft: Draft, max_line_length: int) -> str:
    options = {
        "aggressive": 1,
        "max_line_length": max_line_length,
        "line_range": [draft.prompt_rows + 1, draft.text.count("\n") + 1],
    }
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        fixed: str = autopep8.fix_code(draft.text, options)
        return fixed
    except Exception:  # a formatter may trip over anything
        return draft.text
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError


def _count_tokens(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> list[int]:
    """The length of each text in tokens."""
    return [
        len(tokenizer.encode(text, add_special_tokens=False)) for text in texts
    ]
