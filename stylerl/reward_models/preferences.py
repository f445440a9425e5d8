"""Preferences of people: pairs to ask about, answers, agreement.

A pair is two completions of one prompt.  Answers are JSON lines, one
appended and flushed for each, so nothing is lost when a session ends in the
middle.  An answer holds the texts themselves: the file is all that the
pairwise reward model needs.  Nothing here touches a terminal or a model.
"""

import fcntl
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from stylerl import storage
from stylerl.errors import DataError
from stylerl.judge.fingerprint import digest
from stylerl.reward_models.pairs import Preference

FILE = Path("preferences.jsonl")  # a dependency of the stage `reward`
CONFIDENCE = {1: "a guess", 2: "fairly sure", 3: "certain"}
TEXTS = ("prompt", "a", "b")
TRL = {"chosen": "a", "rejected": "b"}  # as its preference data calls them


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

    TRL's `chosen` and `rejected` are read as `a` and `b`, and asked again.

    Equal pairs count once; equal completions leave nothing to prefer, and
    are passed over.

    Raises:
        DataError: the file is missing, or a line is not such an object.
    """
    rows = _read(path, "write one object a line, with prompt, a and b")
    pairs = dict.fromkeys(Pair.of(*_pair(row)) for _, row in rows)
    return [pair for pair in pairs if pair.a != pair.b]


# ---- Storing ---------------------------------------------------------------


def append(path: Path, answer: Answer) -> None:
    """Add an answer to the file and wait until the disk has it.

    Raises:
        DiskError: the disk is full, or may not be written.
    """
    record = {
        "pair": answer.pair.id,
        "annotator": answer.annotator,
        "choice": answer.choice,
        "confidence": answer.confidence,
        **answer.pair._asdict(),
    }
    with storage.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.seek(0, os.SEEK_END):  # the last line may lack its end
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def load(path: Path) -> list[Answer]:
    """The answers of a file; an annotator's last one to a pair counts.

    A row of TRL's, with `chosen` and `rejected`, is an answer that is
    certain, of the annotator TRL unless it names another.

    Raises:
        DataError: the file is missing, or a line is no answer.
    """
    remedy = (
        "`stylerl prefer` writes it; delete a last line that was cut short; "
        f"`echo > {path}` makes one for none"
    )
    answers = [_answer(*row) for row in _read(path, remedy)]
    answers = [a for a in answers if a.pair.a != a.pair.b]
    return list({(a.annotator, a.pair.id): a for a in answers}.values())


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


# ---- Agreement -------------------------------------------------------------


def agreement(answers: Iterable[Answer]) -> str:
    """How far the annotators agree, in a sentence."""
    shared = _shared(answers)
    if not shared:
        return "Agreement needs a pair that two annotators have answered."
    alpha = krippendorff_alpha(shared)
    return (
        f"Pairs that several annotators answered: {len(shared)}; "
        "Krippendorff's alpha: "
        f"{'undefined' if alpha is None else f'{alpha:.2f}'}."
    )


def krippendorff_alpha(shared: Sequence[Counter[Choice]]) -> float | None:
    """1 - observed / expected disagreement, for any number of annotators.

    Of nominal data, the choices made of each pair that several have answered
    (Krippendorff 2011, "Computing Krippendorff's alpha-reliability", section
    C).  None where there is nothing to compare, or all choices are equal.
    """
    totals = sum(shared, Counter())
    n = totals.total()
    observed = sum(_unlike(unit) / (unit.total() - 1) for unit in shared)
    expected = _unlike(totals) / (n - 1) if n else 0
    return None if expected == 0 else 1 - observed / expected


def _shared(answers: Iterable[Answer]) -> list[Counter[Choice]]:
    """The choices made of each pair that several annotators answered."""
    choices: dict[str, Counter[Choice]] = {}
    for answer in answers:
        choices.setdefault(answer.pair.id, Counter())[answer.choice] += 1
    return [unit for unit in choices.values() if unit.total() > 1]


def _unlike(counts: Counter[Choice]) -> int:
    """Ordered pairs of unequal choices among the counted ones."""
    return counts.total() ** 2 - sum(n**2 for n in counts.values())


# ---- Reading lines ---------------------------------------------------------


def _read(path: Path, remedy: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of JSON lines, each after "FILE, line N".

    Blank lines are passed over: a file may be committed with one, since DVC
    warns of an empty one.

    Raises:
        DataError: it cannot be read, or a line lacks one of the TEXTS.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} must be readable UTF-8 text ({error}); {remedy}"
        ) from error
    preferences = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            row |= {name: row[key] for key, name in TRL.items() if key in row}
            texts = [row[name] for name in TEXTS]
        except (ValueError, TypeError, KeyError, RecursionError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(
                f"{where} must be a JSON object with the texts prompt, a and "
                f"b; got {line[:60]!r}; {remedy}"
            )
        preferences.append((where, row))
    return preferences


def _answer(where: str, record: Mapping[str, Any]) -> Answer:
    pair = _pair(record)
    if "chosen" in record:
        ordered = Pair.of(*pair)
        return Answer(
            str(record.get("annotator") or "TRL"),
            ordered,
            Choice.A if ordered.a == pair.a else Choice.B,
            max(CONFIDENCE),
        )
    name, choice, sure = map(record.get, ("annotator", "choice", "confidence"))
    if not (
        record.get("pair") == pair.id
        and name
        and isinstance(name, str)
        and choice in list(Choice)
        and sure in list(CONFIDENCE)
    ):
        raise DataError(
            f"{where} must have the digest of its texts as pair, a name as "
            "annotator, the choice a, b or tie and the confidence 1, 2 or 3; "
            f"got {record!r:.200}"
        )
    return Answer(name, pair, Choice(choice), sure)


def _pair(record: Mapping[str, Any]) -> Pair:
    return Pair(*(record[name] for name in TEXTS))
