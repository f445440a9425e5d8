"""The label stage: what is drawn, corrupted, judged and counted."""

import hashlib

import pandas as pd
import pytest

from stylerl.data import labels
from stylerl.errors import DataError
from stylerl.judge import Judge

COUNT = 60


@pytest.fixture(scope="module")
def table(judge: Judge) -> pd.DataFrame:
    """The labels of the snippets below; do not change it in a test."""
    return _label(_snippets(), judge)


def _label(
    snippets: pd.DataFrame, judge: Judge, count: int = COUNT
) -> pd.DataFrame:
    return labels.label(labels.draw(snippets, count, 0), judge, 0, {})


def _snippets(train: int = 80, valid: int = 20, test: int = 5) -> pd.DataFrame:
    """Small clean functions, each different from every other."""
    rows = []
    for split, count in (("train", train), ("valid", valid), ("test", test)):
        for i in range(count):
            prompt = f"def {split}_{i}(first, second):\n"
            text = f"{prompt}    result = first + {i}\n    return result\n"
            name = hashlib.sha256(text.encode()).hexdigest()[:16]
            rows.append((name, text, len(prompt), split))
    return pd.DataFrame(rows, columns=["id", "text", "body_start", "split"])


def test_columns_and_shares(table: pd.DataFrame) -> None:
    assert list(table.columns) == [
        "id",
        "text",
        "body_start",
        "split",
        "source_id",
        "rules",
        "codes",
        "score",
        "parsed",
        "compliant",
    ]
    # A tenth of 60 labels is valid, nothing is of the test split.
    assert table["split"].value_counts().to_dict() == {"train": 54, "valid": 6}
    corrupted = table["rules"].map(len) > 0
    assert 15 < corrupted.sum() < 45
    assert table.loc[~corrupted, "compliant"].all()
    assert not table.loc[corrupted, "compliant"].all()
    assert (table["id"] != table["source_id"]).equals(corrupted)


def test_the_table_says_who_judged(table: pd.DataFrame, judge: Judge) -> None:
    assert table.attrs == {"judge": judge.identity}


def test_an_id_is_the_digest_of_its_text(table: pd.DataFrame) -> None:
    digests = [
        hashlib.sha256(text.encode()).hexdigest()[:16]
        for text in table["text"]
    ]
    assert table["id"].tolist() == digests


def test_the_prompt_is_never_changed(table: pd.DataFrame) -> None:
    snippets = _snippets()
    sources = dict(zip(snippets["id"], snippets["text"], strict=True))
    for row in table.to_dict("records"):
        source, start = sources[row["source_id"]], row["body_start"]
        assert row["text"][:start] == source[:start]


def test_the_order_of_the_input_changes_nothing(
    table: pd.DataFrame, judge: Judge
) -> None:
    shuffled = _snippets().sample(frac=1, random_state=1)
    second = _label(shuffled, judge)
    pd.testing.assert_frame_equal(table, second)


def test_more_snippets_leave_the_earlier_as_they_were(
    table: pd.DataFrame, judge: Judge
) -> None:
    many = _label(_snippets(), judge, count=80)
    assert len(many) == 80
    assert set(table["id"]) < set(many["id"])


def test_another_seed_draws_others(judge: Judge) -> None:
    drawn = [
        set(labels.draw(_snippets(), 30, seed)["id"]) for seed in range(2)
    ]
    assert drawn[0] != drawn[1]


def test_fewer_snippets_than_asked_for_are_all_taken() -> None:
    # Of 100 labels 10 would be valid and 90 train; there are 2 and 4.
    drawn = labels.draw(_snippets(4, 2, 9), 100, seed=0)
    assert drawn["split"].value_counts().to_dict() == {"train": 4, "valid": 2}


def test_no_snippet_to_label_is_an_error() -> None:
    with pytest.raises(DataError, match="none among 5"):
        labels.draw(_snippets(0, 0, 5), 10, seed=0)


def test_summary_counts() -> None:
    table = pd.DataFrame(
        {
            "split": ["train", "train", "valid"],
            "rules": [[], ["E225", "W291"], ["E225"]],
            "codes": [["E501"], ["E225", "E225", "W291"], ["E225"]],
            "score": [0.9, 0.7, 0.9],
            "parsed": [True, True, True],
            "compliant": [False, False, False],
        }
    )
    assert labels.summary(table, "0123") == {
        "judge": "0123",
        "snippets": {"train": 2, "valid": 1},
        "as_found": {
            "snippets": 1,
            "compliance": 0.0,
            "parse_rate": 1.0,
            "score": 0.9,
        },
        "corrupted": {
            "snippets": 2,
            "compliance": 0.0,
            "parse_rate": 1.0,
            "score": 0.8,  # (0.7 + 0.9) / 2
        },
        "corruptions": {"E225": 2, "W291": 1},
        # E225 occurs twice in one snippet, which counts once.
        "violations": {"E225": 2, "E501": 1, "W291": 1},
    }


def test_summary_of_labels_without_corrupted_ones(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "CORRUPT_SHARE", 0.0)
    table = _label(_snippets(), judge)
    found = labels.summary(table, judge.identity)
    assert found["corrupted"] == {"snippets": 0}
    assert found["as_found"]["compliance"] == 1.0
