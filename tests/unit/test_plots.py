"""Charts: what is drawn where, and text that cannot escape."""

import math
import re
from xml.etree import ElementTree

import pytest

from stylerl.report import plots
from stylerl.report.plots import INKS, Dot, Mark, Series

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
    figure = plots.lines("t", [0, 5, 10], [Series("s", "ppo", [0, 1, 4])])
    (path,) = paths(figure, "ppo")
    (x, y), (x1, y1), (x2, y2) = points(path)
    assert abs((x2 - x1) - (x1 - x)) < 1e-3
    assert abs((y1 - y2) - 3 * (y - y1)) < 1e-3


def test_a_line_may_stand_over_places_of_its_own():
    own = Series("own", "sft", [1, 0], [5, 10])
    figure = plots.lines("t", [0, 10], [Series("s", "ppo", [0, 1]), own])
    ((first, _), (last, _)) = points(paths(figure, "ppo")[0])
    ((begin, _), (end, _)) = points(paths(figure, "sft")[0])
    assert abs(begin - (first + last) / 2) < 1e-3
    assert abs(end - last) < 1e-3


def test_a_gap_stands_where_a_value_is_missing():
    figure = plots.lines(
        "t", [0, 1, 2, 10], [Series("s", "ppo", [0, math.nan, 1, 0])]
    )
    assert "nan" not in figure
    # the first stands alone, and is a dot, whose shape is a third
    assert "<use" in figure
    assert sum(path.count("M") for path in paths(figure, "ppo")) == 3


@pytest.mark.parametrize(
    ("values", "lone"),
    [
        ([1, 2], []),
        ([1], [0]),
        ([1, math.nan, 2, 3, math.nan, 4], [0, 5]),
        ([math.nan, 1, math.nan], [1]),
        ([], []),
    ],
)
def test_a_value_between_gaps_is_a_dot(values, lone):
    assert plots.lone_points(values) == lone


def test_a_constant_or_missing_series_still_has_a_scale():
    for values in ([3.0, 3.0], [math.nan, math.nan]):
        figure = plots.lines("t", [1, 2], [Series("s", "ppo", values)])
        assert "nan" not in figure


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
    figure = plots.lines(
        evil,
        [0, 1],
        [Series(evil, "ppo", [0, 1]), Series("b", "sft", [0, 1])],
        marks=[Mark(0, evil)],
        dots=[Dot(0, 0, evil, "ppo")],
    )
    assert "<script>" not in figure
    assert words(figure).count(evil) == 2


def test_charts_of_one_page_share_no_id():
    ids = [
        each.get("id")
        for title in ("one", "two")
        for each in drawing(
            plots.lines(title, [0, 1], [Series("s", "ppo", [0, 1])])
        ).iter()
        if each.get("id")
    ]
    assert len({*ids}) == len(ids) > 0


def test_every_colour_is_the_style_sheets():
    figure = plots.lines(
        "t",
        [0, 1],
        [Series("s", "ppo", [0, 1])],
        marks=[Mark(0, "1")],
        dots=[Dot(0, 0, "a", "sft")],
        diagonal=True,
    )
    assert not [ink for ink in INKS.values() if ink in figure]
    assert "#000000" not in figure


def test_dots_differ_by_shape_and_not_by_colour_alone():
    styles = ["base", "sft", "ppo", "human"]
    dots = [Dot(i, i, style, style) for i, style in enumerate(styles)]
    figure = plots.lines("t", [], [], dots=dots)
    assert len({paths(figure, style)[0] for style in styles}) == 4
    assert {*styles} <= {*words(figure)}
