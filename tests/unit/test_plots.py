"""Charts: what is drawn where, and text that cannot escape."""

import math
import re
from xml.etree import ElementTree

from stylerl.report import plots
from stylerl.report.plots import INKS, Series

SVG = "{http://www.w3.org/2000/svg}"


def drawing(figure: str) -> ElementTree.Element:
    """The chart as XML: it must be well formed."""
    return ElementTree.fromstring(str(figure))


def paths(figure: str, style: str) -> list[str]:
    """The `d` of what is drawn in a style's colour."""
    return [
        str(path.get("d"))
        for path in drawing(figure).iter(f"{SVG}path")
        if f"stroke: var(--{style})" in str(path.get("style"))
        or f"fill: var(--{style})" in str(path.get("style"))
    ]


def words(figure: str) -> list[str]:
    return [str(text.text) for text in drawing(figure).iter(f"{SVG}text")]


def points(path: str) -> list[tuple[float, float]]:
    """The places that a path goes to."""
    found = re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)
    return [(float(x), float(y)) for x, y in found]


def test_a_line_rises_by_its_values():
    """Through (0, 0), (5, 1) and (10, 4): each unit is as wide, and the
    third step is three times as high as the second."""
    figure = plots.line("t", [0, 5, 10], [0, 1, 4])
    path, *_ = paths(figure, "ppo")
    (x, y), (x1, y1), (x2, y2) = points(path)
    assert abs((x2 - x1) - (x1 - x)) < 1e-3
    assert abs((y1 - y2) - 3 * (y - y1)) < 1e-3


def test_a_constant_line_still_has_a_scale():
    assert "nan" not in plots.line("t", [1, 2], [3.0, 3.0])


def test_bars_stand_on_zero_and_share_the_width():
    figure = plots.bars(
        "t", ["a"], [Series("x", "sft", [1]), Series("y", "ppo", [2])]
    )
    (low,), (high,) = paths(figure, "sft"), paths(figure, "ppo")
    (x, foot), (x1, _), (_, top) = points(low)[:3]
    (x2, foot2), (x3, _), (_, top2) = points(high)[:3]
    assert foot == foot2
    assert abs((foot - top2) - 2 * (foot - top)) < 1e-3
    assert abs(x1 - x2) < 1e-3
    assert abs((x3 - x2) - (x1 - x)) < 1e-3
    assert words(figure)[-2:] == ["1", "2"]


def test_a_bar_without_a_value_has_no_word():
    figure = plots.bars("t", ["a"], [Series("x", "sft", [math.nan])])
    assert "nan" not in figure


def test_every_word_is_escaped():
    evil = "</title><script>$alert(1)$</script>"
    for figure, times in (
        (plots.line(evil, [0, 1], [0, 1]), 0),  # the title is no word of it
        (plots.bars(evil, [evil], [Series(evil, "ppo", [1])]), 1),
    ):
        assert "<script>" not in figure
        assert "&lt;script&gt;" in figure
        assert words(figure).count(evil) == times


def test_charts_of_one_page_share_no_id():
    ids = [
        each.get("id")
        for title in ("one", "two")
        for each in drawing(plots.line(title, [0, 1], [0, 1])).iter()
        if each.get("id")
    ]
    assert len({*ids}) == len(ids) > 0


def test_every_colour_is_the_style_sheets():
    for figure in (
        plots.line("t", [0, 1], [0, 1], marks=[0]),
        plots.bars("t", ["a"], [Series("s", "human", [1])]),
    ):
        assert not [ink for ink in INKS.values() if ink in figure]
        assert "#000000" not in figure
