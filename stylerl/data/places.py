"""The places of snippets in the files that they were cut from.

The stage `filter` writes the text of each file that it keeps a snippet of; a
snippet's row names its file, and its first row there.
"""

import io
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from stylerl import storage
from stylerl.judge.place import File, Place

KEY = ["distribution", "path"]  # of a file
COLUMNS = [*KEY, "text"]
BATCH = 256  # files that are read at a time


def files(corpus: Path, snippets: pd.DataFrame) -> pd.DataFrame:
    """The files that functions were cut from, with the columns COLUMNS.

    Not those in another encoding than UTF-8, into which not every body can
    be put.

    Args:
        corpus: data/corpus.parquet.
        snippets: rows of artifacts/filter/snippets.parquet.
    """
    cut = snippets[snippets["body_start"] > 0]
    wanted = set(zip(cut["distribution"], cut["path"], strict=True))
    rows = []
    for row in rows_of(corpus, [*KEY, "content"]):
        key = (row["distribution"], row["path"])
        if key in wanted:
            text, encoding = decode(row["content"])
            if encoding in ("utf-8", "utf-8-sig"):
                rows.append((*key, text))
    return pd.DataFrame(rows, columns=COLUMNS)


def rows_of(table: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a parquet table, a batch of them in memory at a time."""
    with pq.ParquetFile(table) as file:
        for batch in file.iter_batches(BATCH, columns=columns):
            yield from batch.to_pylist()


def decode(content: bytes) -> tuple[str, str]:
    """A source file's text with Unix line ends, and its encoding.

    Raises:
        SyntaxError, UnicodeError, LookupError: it has none.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    text = content.decode(encoding)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.lstrip("\ufeff"), encoding


def places(files: Path, snippets: pd.DataFrame) -> dict[str, Place]:
    """The places of functions, by the snippet's id.

    A snippet that is a file, or of a file in another encoding than UTF-8,
    has none.

    Args:
        files: artifacts/filter/files.parquet.
        snippets: rows of artifacts/filter/snippets.parquet.
    """
    cut = snippets[snippets["body_start"] > 0]
    if cut.empty:
        return {}
    wanted = sorted(set(cut["path"]))
    table = pd.read_parquet(files, filters=[("path", "in", wanted)])
    by_path = {
        (row["distribution"], row["path"]): File(
            row["text"].split("\n"), row["path"]
        )
        for row in table.to_dict("records")
    }
    rows: Any = cut.to_dict("records")
    return {
        row["id"]: Place(file, row["line"], row["text"], _head(row))
        for row in rows
        if (file := by_path.get((row["distribution"], row["path"])))
    }


def places_of_labels(folder: Path, labels: pd.DataFrame) -> dict[str, Place]:
    """The places of the labelled functions' prompts, by prompt.

    Of functions with the same prompt, the first one's; of those that comply,
    none is asked for (data/prompts.py).

    Args:
        folder: what the stage filter has written, artifacts/filter.
        labels: rows of artifacts/label/labels.parquet.

    Raises:
        DataError: a table of the folder is missing.
    """
    asked = labels[~labels["compliant"] & (labels["body_start"] > 0)]
    by_id = _places_of(folder, asked)
    by_prompt: dict[str, Place] = {}
    rows: Any = asked.to_dict("records")
    for row in rows:
        if place := by_id.get(row["source_id"]):
            by_prompt.setdefault(_head(row), place)
    return by_prompt


def texts_above(folder: Path, labels: pd.DataFrame) -> dict[str, str]:
    """The text above labelled functions in their files, by function.

    Args:
        folder: what the stage filter has written, artifacts/filter.
        labels: rows of artifacts/label/labels.parquet.

    Raises:
        DataError: a table of the folder is missing.
    """
    places = _places_of(folder, labels)
    pairs = zip(labels["source_id"], labels["text"], strict=True)
    return {text: places[name].above for name, text in pairs if name in places}


def _places_of(folder: Path, labels: pd.DataFrame) -> dict[str, Place]:
    """The places of labelled functions, by the snippet's id."""
    snippets = storage.read_table(folder / "snippets.parquet")
    cut = snippets[snippets["id"].isin(labels["source_id"])]
    return places(folder / "files.parquet", cut)


def _head(row: Mapping[str, Any]) -> str:
    """The part of a function that is its prompt."""
    text: str = row["text"][: row["body_start"]]
    return text
