"""The picture of the README: the example's rule, and what is drawn of it."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from test_metrics import row

from stylerl import storage
from stylerl.errors import DataError
from stylerl.judge.verdict import Violation
from tools import picture

ROOT = Path(__file__).resolve().parents[2]
METRICS = storage.read_json(ROOT / "metrics/evaluate.json")
SVG = "{http://www.w3.org/2000/svg}"
PROMPT = "def add(a, b):"
ROUGH = "\n    total = a+b\n    return  total\n"
CHARGED = {
    "completion": ROUGH,
    "outcome": "violations",
    "fixed_outcome": "violations",
    # In row 3, `return  total`, the second blank is in column 11.
    "rows": [3],
    "cols": [11],
    "codes": ["E271"],
    "texts": ["multiple spaces after keyword"],
}
CLEAN = "\n    total = a + b\n    return total\n"


def completion(model: str, prompt_id: str, **changes: Any) -> dict[str, Any]:
    """A row of artifacts/evaluate/completions.parquet, as it could be."""
    found = {"prompt": PROMPT, "names": 1.0}
    found |= CHARGED if model == "sft" else {"completion": CLEAN}
    return row(model, prompt_id) | found | changes


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def pair(prompt_id: str, **changes: Any) -> list[dict[str, Any]]:
    """Both models' rows of one prompt, with SFT's changed."""
    return [
        completion("sft", prompt_id, **changes),
        completion("ppo", prompt_id),
    ]


def example() -> picture.Example:
    chosen = picture.choose(table(*pair("a")), {"a": "pkg 1.0, MIT"})
    assert chosen
    return chosen


def test_the_first_id_is_taken_whatever_the_order() -> None:
    chosen = picture.choose(table(*pair("b"), *pair("a"), *pair("c")))
    assert chosen
    assert chosen.id == "a"
    assert chosen.before.violations == (
        Violation(3, 11, "E271", "multiple spaces after keyword"),
    )
    assert chosen.after.violations == ()


def test_blank_lines_at_the_end_have_no_underline() -> None:
    """Of four rows, E303 is in the sixth: its code stands at the last."""
    found = {"completion": ROUGH + "\n\n\n", "rows": [6], "cols": [1]}
    found |= {"codes": ["E303"], "texts": ["too many blank lines (3)"]}
    chosen = picture.choose(table(*pair("a", **found)))
    assert chosen
    drawn = picture.draw(chosen, METRICS)
    assert drawn.count("E303") == 2  # beside the line, and in words
    assert not ElementTree.fromstring(drawn).findall(f".//{SVG}path")


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("sft", {"sample": 1}),
        ("sft", {"outcome": "compliant"}),
        ("sft", {"outcome": "unparsable"}),
        ("sft", {"fixed_outcome": "compliant"}),
        ("sft", {"prompt": 'def add(a, b):\n    """Add."""'}),
        ("sft", {"completion": "\n    x = 1" * 12}),  # thirteen lines
        ("ppo", {"outcome": "violations"}),
        ("ppo", {"names": 0.5}),
        ("ppo", {"trivial": True}),  # it does nothing
        ("ppo", {"completion": "\n    if a:\n        b()\n    b()\n"}),
        ("ppo", {"completion": "\n\n  \n    return a\n"}),  # two lines
        ("ppo", {"completion": f"\n    x = {'a' * 37}\n    y = 1\n"}),  # 45
    ],
)
def test_what_the_rule_leaves_out(model: str, changes: dict[str, Any]) -> None:
    rows = [
        completion(name, "a", **(changes if name == model else {}))
        for name in ("sft", "ppo")
    ]
    assert picture.choose(table(*rows)) is None


def test_the_nearest_to_its_author_is_taken() -> None:
    """Of b all of the body is the author's, of a no line."""
    own = {"a": "\n    raise ValueError\n", "b": CLEAN}
    written = [completion("human", name, completion=own[name]) for name in own]
    chosen = picture.choose(table(*pair("a"), *pair("b"), *written))
    assert chosen and chosen.id == "b"


def test_a_longer_line_of_sfts_is_cut() -> None:
    """To 44 columns; what is charged beyond them has no underline."""
    long = f"\n    x = {'a' * 80}\n    return x\n"
    found = {"completion": long}
    found |= {"rows": [2], "cols": [80], "codes": ["E501"], "texts": ["long"]}
    chosen = picture.choose(table(*pair("a", **found)))
    assert chosen
    drawn = picture.draw(chosen, METRICS)
    assert f"x = {'a' * 35}…<" in drawn
    assert "1 violation" in drawn
    assert not ElementTree.fromstring(drawn).findall(f".//{SVG}path")


def test_an_earlier_sample_comes_before_an_earlier_id() -> None:
    later = [row | {"sample": 1} for row in pair("a")]
    chosen = picture.choose(table(*later, *pair("b")))
    assert chosen and chosen.id == "b"
    unfit = pair("b", outcome="compliant")
    chosen = picture.choose(table(*later, *unfit))
    assert chosen and chosen.id == "a"


def test_the_example_survives_its_file() -> None:
    kept = json.loads(json.dumps(picture.as_json(example())))
    assert picture.from_json(kept) == example()


def test_an_underline_has_the_columns_of_the_violation() -> None:
    drawn = picture.draw(example(), METRICS)
    waves = ElementTree.fromstring(drawn).findall(f".//{SVG}path")
    # Column 11 is 10 characters of 7.2 pixels from the panel's edge; row 3 is
    # the body's second line, so its underline lies at 54 + 20 + 5.
    assert [wave.attrib["d"][:7] for wave in waves] == ["M72 79l"]


def test_the_picture_says_codes_origin_and_compliance() -> None:
    root = ElementTree.fromstring(picture.draw(example(), METRICS))
    said = " ".join("".join(each.itertext()) for each in root.iter())
    for words in (
        "1 violation",
        "compliant",
        "E271 multiple spaces after keyword",
        "pkg 1.0, MIT",
        f"{100 * METRICS['ppo']['compliance']:.1f}%",
    ):
        assert words in said


def test_untrusted_text_is_escaped() -> None:
    body = "\n    x = '<script>'\n    return x & 1\n"
    chosen = picture.choose(table(*pair("a", completion=body)))
    drawn = picture.draw(chosen, METRICS)
    assert "<script" not in drawn
    assert "x = '<script>'" in "".join(
        ElementTree.fromstring(drawn).itertext()
    )


def test_without_an_example_there_are_the_bars() -> None:
    drawn = picture.draw(None, METRICS)
    assert ElementTree.fromstring(drawn).findall(f".//{SVG}path") == []
    assert "PPO" in drawn


def test_completions_of_another_run_are_refused() -> None:
    with pytest.raises(DataError, match="must be of the run"):
        picture.check_same_run(table(*pair("a")), METRICS)


def test_the_committed_picture_is_drawn_from_the_committed_files() -> None:
    drawn = picture.draw(picture.kept_example(), METRICS)
    assert (ROOT / picture.PICTURE).read_text(encoding="utf-8") == drawn
