"""The label stage: snippets, some corrupted, with the judge's verdict.

Which snippets are drawn, and how each is corrupted, depends on the seed and
the snippet's own id alone, not on the order of the input or on other
snippets.  The test split is never labelled.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from tqdm import tqdm

from stylerl.corrupt import corrupt_style
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.place import Completed, Place

LABELLED = ("train", "valid")
VALID_SHARE = 0.1  # of the labels; the rest is for training
CORRUPT_SHARE = 0.5  # of the snippets whose body is corrupted


def label(
    drawn: pd.DataFrame,
    judge: Judge,
    seed: int,
    places: Mapping[str, Place],
) -> pd.DataFrame:
    """Corrupt the style of a share of what `draw` gave, and judge all.

    Each where it stands, if `places` has its id; else as a file.

    `drawn` has the columns of artifacts/filter/snippets.parquet; the result
    those of artifacts/label/labels.parquet, in the order of drawing, so that
    its first rows are a random sample.
    """
    rows = tqdm(drawn.to_dict("records"), "label: corrupt", unit=" snippets")
    corrupted = [_corrupted(row, seed) for row in rows]
    table = pd.DataFrame(corrupted).drop_duplicates("id", ignore_index=True)
    judged = pd.DataFrame(
        {
            "codes": [violation.code for violation in verdict.violations],
            "score": verdict.score,
            "parsed": verdict.parsed,
            "compliant": verdict.compliant,
        }
        for verdict in judge.in_place(
            _completed(table, places), "label: judge"
        )
    )
    labels = pd.concat([table, judged], axis=1)
    labels.attrs["judge"] = judge.identity  # parquet keeps it
    return labels


def _completed(
    table: pd.DataFrame, places: Mapping[str, Place]
) -> list[Completed]:
    """The place, the prompt and the body of each; a file is all prompt."""
    rows = zip(
        table["source_id"], table["text"], table["body_start"], strict=True
    )
    return [
        (places.get(name), text[:start], text[start:])
        if start > 0
        else (None, text, "")
        for name, text, start in rows
    ]


def draw(snippets: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """Up to `count` rows of train and valid, those of the lowest hash.

    VALID_SHARE of them are of the valid split, where it has as many.

    Raises:
        DataError: no snippet of the two is given.
    """
    keys = [
        hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()
        for name in snippets["id"]
    ]
    # The order of the hashes is random, and adding a row keeps the others'.
    ordered = snippets.assign(key=keys).sort_values("key")
    wanted = {"valid": round(VALID_SHARE * count)}
    wanted["train"] = count - wanted["valid"]
    drawn = pd.concat(
        ordered[ordered["split"] == split].head(wanted[split])
        for split in LABELLED
    )
    if drawn.empty:
        raise DataError(
            "labelling needs snippets of the splits train or valid; got "
            f"none among {len(snippets)}: run the filter stage on more data"
        )
    return drawn.sort_values("key")


def summary(labels: pd.DataFrame, identity: str) -> dict[str, Any]:
    """metrics/label.json: what was labelled, and what the judge found.

    `violations` counts the snippets that break a rule at least once.
    """
    corrupted = labels["rules"].map(len) > 0
    return {
        "judge": identity,
        "snippets": {
            split: int((labels["split"] == split).sum()) for split in LABELLED
        },
        "as_found": _group(labels[~corrupted]),
        "corrupted": _group(labels[corrupted]),
        "corruptions": _count(labels["rules"]),
        "violations": _count(labels["codes"].map(set)),
    }


def _corrupted(row: Mapping[Any, Any], seed: int) -> dict[str, Any]:
    """One row before judging; of CORRUPT_SHARE the body is corrupted."""
    rng = random.Random(f"{seed}:{row['id']}")
    text, rules = row["text"], list[str]()
    if rng.random() < CORRUPT_SHARE:
        text, rules = corrupt_style(text, row["body_start"], rng)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {
        "id": digest[:16],
        "text": text,
        "body_start": int(row["body_start"]),
        "split": row["split"],
        "source_id": row["id"],
        "rules": rules,
    }


def _group(labels: pd.DataFrame) -> dict[str, float]:
    """Count, compliance, parse rate and mean score of some labels."""
    if labels.empty:
        return {"snippets": 0}
    return {
        "snippets": len(labels),
        "compliance": round(float(labels["compliant"].mean()), 6),
        "parse_rate": round(float(labels["parsed"].mean()), 6),
        "score": round(float(labels["score"].mean()), 6),
    }


def _count(names: Iterable[Iterable[str]]) -> dict[str, int]:
    """How many rows hold each name, the most frequent first."""
    counts = Counter(name for row in names for name in row)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
