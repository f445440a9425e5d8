"""Preferences of people: pairs to ask about, and answers.

A pair is two completions of one prompt.  Answers are JSON lines, one
appended for each, so nothing is lost when a session ends in the middle.  An
answer holds the texts themselves: the file is all that the pairwise reward
model needs.  Nothing here touches a terminal or a model.
"""

import json
import random
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from stylerl import storage
from stylerl.errors import DataError
from stylerl.judge.fingerprint import digest
from stylerl.reward_models.pairs import Preference

FILE = Path("preferences.jsonl")  # a dependency of the stage `reward`
CONFIDENCE = {1: "a guess", 2: "fairly sure", 3: "certain"}


class Choice(StrEnum):
    """Which completion of a pair is the better one."""

    A = "a"
    B = "b"
    TIE = "tie"


class Pair(NamedTuple):
    """Two completions of a prompt; `a` sorts before `b`, so that a pair is
    the same one whoever wrote which."""

    prompt: str
    a: str
    b: str

    @classmethod
    def of(cls, prompt: str, one: str, other: str) -> "Pair":
        """The pair of two completions, whatever their order."""
        return cls(prompt, *sorted((one, other)))

    @property
    def id(self) -> str:
        """A digest of the texts, 16 hex digits."""
        return digest(self)


class Answer(NamedTuple):
    """What one annotator said of one pair."""

    annotator: str
    pair: Pair
    choice: Choice
    confidence: int  # a key of CONFIDENCE


# ---- Choosing --------------------------------------------------------------


def is_swapped(pair: Pair, annotator: str, seed: int) -> bool:
    """Whether `b` is shown first: a coin for each pair and annotator.

    So that neither side gives away where a text comes from, and a habit of
    preferring one side cancels out.
    """
    return random.Random(f"{seed}:{annotator}:{pair.id}").random() < 0.5


def read_pairs(path: Path) -> list[Pair]:
    """Pairs of a JSONL file with `prompt`, `a` and `b` on each line.

    Equal pairs count once; equal completions leave nothing to prefer, and
    are passed over.

    Raises:
        DataError: the file is missing, or a line is not such an object.
    """
    rows = _read(path, "write one object a line, with prompt, a and b")
    pairs = dict.fromkeys(Pair.of(*pair) for _, pair, _ in rows)
    return [pair for pair in pairs if pair.a != pair.b]


# ---- Storing ---------------------------------------------------------------


def append(path: Path, answer: Answer) -> None:
    """Add an answer to the file.

    Raises:
        DiskError: the disk is full, or may not be written.
    """
    record = {
        "annotator": answer.annotator,
        "choice": answer.choice,
        "confidence": answer.confidence,
        **answer.pair._asdict(),
    }
    with storage.writing(path), path.open("a") as file:
        # The last line may lack its end.
        file.write(f"\n{json.dumps(record)}\n")


def load(path: Path) -> list[Answer]:
    """The answers of a file; an annotator's last one to a pair counts.

    Raises:
        DataError: the file is missing, or a line is no answer.
    """
    remedy = (
        "`stylerl prefer` writes it; delete a last line that was cut short; "
        f"where there is no file, `echo > {path}` makes one for none"
    )
    answers = [_answer(*row) for row in _read(path, remedy)]
    return list({(a.annotator, a.pair): a for a in answers}.values())


def learnable(answers: Iterable[Answer]) -> list[Preference]:
    """The answers as the pairwise model learns them; ties are left out.

    The margin by which the chosen text should win grows with confidence, as
    in Llama 2 (arXiv 2307.09288, equation 2 and table 27): 1/3, 2/3, 1.
    """
    pairs = []
    for answer in answers:
        prompt, a, b = answer.pair
        if answer.choice is Choice.TIE:
            continue
        better, worse = (a, b) if answer.choice is Choice.A else (b, a)
        margin = answer.confidence / len(CONFIDENCE)
        pairs.append(
            Preference("", prompt + better, prompt + worse, margin=margin)
        )
    return pairs


# ---- Reading lines ---------------------------------------------------------


def _read(
    path: Path, remedy: str
) -> Iterator[tuple[str, Pair, dict[str, Any]]]:
    """The objects of JSON lines, each after "FILE, line N" and its pair.

    Blank lines are passed over: a file may be committed with one, since DVC
    warns of an empty one.

    Raises:
        DataError: it cannot be read, or a line lacks a text of a pair.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} must be readable UTF-8 text ({error}); {remedy}"
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            texts = [row[name] for name in Pair._fields]
        except (ValueError, TypeError, KeyError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(
                f"{where} must be a JSON object with the texts prompt, a and "
                f"b; got {line[:60]!r}; {remedy}"
            )
        yield where, Pair(*texts), row


def _answer(where: str, pair: Pair, row: dict[str, Any]) -> Answer:
    name, choice, sure = map(row.get, ("annotator", "choice", "confidence"))
    if not (name and choice in list(Choice) and sure in list(CONFIDENCE)):
        raise DataError(
            f"{where} must have a name as annotator, the choice a, b or tie "
            f"and the confidence 1, 2 or 3; got {row!r:.200}"
        )
    return Answer(str(name), pair, Choice(choice), sure)
