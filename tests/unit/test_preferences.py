"""Human preferences: choosing, storing, learning."""

import json
from pathlib import Path

import pytest

from stylerl.errors import DataError
from stylerl.reward_models import preferences
from stylerl.reward_models.pairs import Preference
from stylerl.reward_models.preferences import Answer, Choice, Pair

A, B, TIE = Choice.A, Choice.B, Choice.TIE
PAIR = Pair.of("def f(x):", "\n    return x\n", "\n    return x ;\n")


def pair(name: str) -> Pair:
    return Pair.of(name, "1", "2")


# ---- Pairs and their order -------------------------------------------------


def test_a_pair_is_the_same_whoever_wrote_which() -> None:
    assert Pair.of("p", "x", "y") == Pair.of("p", "y", "x")
    # printf '["p", "x", "y"]' | sha256sum | cut -c-16
    assert Pair.of("p", "y", "x").id == "ccc4f271ff327ded"
    assert Pair.of("p", "x", "y").id != Pair.of("px", "", "y").id


def test_sides_are_drawn_and_stay() -> None:
    pairs = [pair(str(i)) for i in range(400)]
    first = [preferences.is_swapped(p, "ann", 0) for p in pairs]
    assert first == [preferences.is_swapped(p, "ann", 0) for p in pairs]
    # 400 fair coins: mean 200, standard deviation 10
    assert 150 < sum(first) < 250
    for annotator, seed in [("bob", 0), ("ann", 1)]:
        other = [preferences.is_swapped(p, annotator, seed) for p in pairs]
        assert 150 < sum(map(bool.__ne__, first, other)) < 250


def test_pairs_of_a_file(tmp_path: Path) -> None:
    rows = [
        {"prompt": "p", "a": "y", "b": "x", "source": "mine"},
        {"prompt": "p", "a": "x", "b": "y"},  # the same pair
        {"prompt": "p", "a": "x", "b": "x"},  # nothing to prefer
        {"prompt": "q", "a": "x\u2028", "b": "y"},  # no line end in JSONL
    ]
    file = tmp_path / "pairs.jsonl"
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_text("\ufeff" + "\n\n".join(lines))  # a BOM, as Windows has it
    assert preferences.read_pairs(file) == [
        Pair("p", "x", "y"),
        Pair("q", "x\u2028", "y"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1 must be a JSON object with the texts prompt, a and b;"),
        ("[1]", r"line 1 must be .* got '\[1\]'"),
        ('{"prompt": "p", "a": "x"}', "line 1 must be a JSON object"),
        (
            '{"prompt": "p", "a": "x", "b": "y"}\n{"prompt": 1}',
            "line 2 must be .* got '{\"prompt\": 1}'; write one object a line",
        ),
    ],
)
def test_a_line_that_is_no_pair(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        preferences.read_pairs(file)


# ---- Storing ---------------------------------------------------------------


def test_answers_come_back_and_the_last_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    given = [
        Answer("ann", PAIR, A, 3),
        Answer("bob", PAIR, TIE, 1),
        Answer("ann", PAIR, B, 2),
    ]
    for answer in given:
        preferences.append(file, answer)
    assert file.read_text().count("annotator") == 3
    assert preferences.load(file) == [given[2], given[1]]


def test_a_torn_last_line_is_named_with_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    for name in ("ann", "bob"):
        preferences.append(file, Answer(name, PAIR, A, 3))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DataError, match="line 4 must be .* delete a last"):
        preferences.load(file)


def test_a_last_line_may_lack_its_end(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    preferences.append(file, Answer("ann", PAIR, A, 3))
    file.write_text(file.read_text().rstrip())
    preferences.append(file, Answer("bob", PAIR, A, 3))
    assert [answer.annotator for answer in preferences.load(file)] == [
        "ann",
        "bob",
    ]


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_file_has_no_answers(tmp_path: Path, content: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(content)
    assert preferences.load(file) == []


@pytest.mark.parametrize(
    "change",
    [
        {"annotator": ""},
        {"choice": "c"},
        {"confidence": 4},
        {"confidence": [1]},
    ],
)
def test_a_line_that_is_no_answer(
    tmp_path: Path, change: dict[str, object]
) -> None:
    file = tmp_path / "answers.jsonl"
    preferences.append(file, Answer("ann", PAIR, A, 3))
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | change))
    with pytest.raises(DataError, match="line 1 must have a name as annotat"):
        preferences.load(file)


def test_no_file_of_answers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl must be readable"):
        preferences.load(tmp_path / "absent.jsonl")


def test_what_the_pairwise_model_learns() -> None:
    prompt, a, b = PAIR
    given = [
        Answer("ann", PAIR, B, 1),
        Answer("bob", PAIR, TIE, 3),
        Answer("eve", PAIR, A, 3),
    ]
    assert preferences.learnable(given) == [
        Preference("", prompt + b, prompt + a, margin=1 / 3),
        Preference("", prompt + a, prompt + b, margin=1.0),
    ]
