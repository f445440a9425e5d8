"""Charts: positions worked out by hand, and text that cannot escape."""

import math
import re
from xml.etree import ElementTree

import pytest

from stylerl.report import plots
from stylerl.report.plots import Dot, Mark, Series


def drawing(figure: str) -> ElementTree.Element:
    """The chart as XML: it must be well formed."""
    return ElementTree.fromstring(str(figure))


def test_a_line_runs_from_corner_to_corner():
    # x from 0 to 10 over 44..350, y from 0 to 1 over 174..10 (bottom to
    # top), so (0, 0) is "44 174" and (10, 1) is "350 10".
    figure = plots.lines("t", [0, 10], [Series("s", "ppo", [0, 1])])

    line = drawing(figure).find(".//path[@class='line ppo']")
    assert line.get("d") == "M44 174h0L350 10"


def test_a_line_may_stand_over_places_of_its_own():
    """The scale of x spans both: 0 to 10, over 44 to 350; 5 is at 197."""
    own = Series("own", "sft", [1, 0], [5, 10])
    figure = plots.lines("t", [0, 10], [Series("s", "ppo", [0, 1]), own])

    lines = drawing(figure).findall(".//path[@class='line sft']")
    assert [line.get("d") for line in lines] == ["M197 10h0L350 174"]


def test_a_gap_stands_where_a_value_is_missing():
    figure = plots.lines(
        "t", [0, 1, 2, 10], [Series("s", "ppo", [0, math.nan, 1, 0])]
    )

    path = drawing(figure).find(".//path[@class='line ppo']").get("d")
    assert path.count("M") == 2
    assert "nan" not in path


def test_a_constant_or_missing_series_still_has_a_scale():
    for values in ([3.0, 3.0], [math.nan, math.nan]):
        figure = plots.lines("t", [1, 2], [Series("s", "ppo", values)])
        assert "nan" not in figure


def test_bars_stand_on_zero_and_share_the_width():
    # One group over 44..350 (306 units), two bars of 0.4 of it each, from
    # 0.1: 44 + 30.6 = 74.6, then 74.6 + 122.4 = 197.  The taller, 2, is
    # the top of the scale: from 10 to 174.
    figure = plots.bars(
        "t", ["a"], [Series("x", "sft", [1]), Series("y", "ppo", [2])]
    )

    low, high = drawing(figure).findall(".//rect")
    assert (low.get("x"), low.get("height")) == ("74.6", "82")
    assert (high.get("x"), high.get("y")) == ("197", "10")
    assert high.get("height") == "164"


def test_every_word_is_escaped():
    evil = "</title><script>alert(1)</script>"

    figure = plots.lines(
        evil, [0, 1], [Series(evil, "ppo", [0, 1])], marks=[Mark(0, evil)]
    )

    assert "<script>" not in figure
    drawing(figure)


@pytest.mark.parametrize(
    ("dot", "place"),
    [
        # (5, 0.5) is drawn at 197, 92; (10, 0.5) at 350, 92
        (Dot(5, 0.5, "a", "ppo"), ("205", "96", "start")),
        (Dot(10, 0.5, "a", "ppo"), ("342", "96", "end")),
        (Dot(5, 0.5, "a", "ppo", above=True), ("197", "84", "middle")),
    ],
)
def test_a_dot_has_its_name_where_there_is_room(dot, place):
    series = [Series("s", "ppo", [0, 1])]
    figure = plots.lines("t", [0, 10], series, dots=[dot])

    (name,) = (x for x in drawing(figure).findall(".//text") if x.text == "a")
    assert (name.get("x"), name.get("y"), name.get("text-anchor")) == place


def test_ticks_are_round_numbers():
    figure = plots.lines("t", [0, 60], [Series("s", "ppo", [0.13, 0.58])])

    words = [text.text for text in drawing(figure).findall(".//text")]
    assert words == ["0", "0.2", "0.4", "0.6", "0", "20", "40", "60"]
    assert "id=" not in figure  # a page has many charts


def names(figure):
    """The texts of a chart, without the ticks, by their place."""
    return {
        text.text: (float(text.get("x")), float(text.get("y")))
        for text in drawing(figure).findall(".//text")
        if not re.fullmatch(r"[−0-9.]+", text.text)
    }


def test_names_of_dots_do_not_lie_on_one_another():
    # Both scales go to 10: a dot at (5, 5) is drawn at (197, 92).  The
    # first name goes beside it, 8 to the right and 4 below its middle, the
    # second to its other side.
    dots = [
        Dot(0, 0, "low", "sft"), Dot(10, 10, "top", "sft"),
        Dot(5, 5, "one", "ppo"), Dot(5, 5, "two", "ppo"),
    ]  # fmt: skip
    found = names(plots.lines("t", [0, 10], [], dots=dots))

    assert found["one"] == (205, 96)
    assert found["two"] == (189, 96)


def test_many_names_in_one_place_are_all_apart():
    dots = [Dot(5, 5, f"n{i}", "ppo", above=True) for i in range(6)]
    dots += [Dot(0, 0, "low", "sft"), Dot(10, 10, "top", "sft")]
    figure = plots.lines("t", [], [], dots=dots)
    # Two letters are 12 wide, to one side of their place or to both, and a
    # line is 11 high.
    left = {"start": 0, "middle": -6, "end": -12}
    places = [
        (float(text.get("x")) + left[text.get("text-anchor")],
         float(text.get("y")))
        for text in drawing(figure).findall(".//text")
        if text.text.startswith("n")
    ]  # fmt: skip
    assert len(places) == 6
    for i, (x, y) in enumerate(places):
        for across, down in places[:i]:
            assert abs(x - across) >= 12 or abs(y - down) >= 11


def test_dots_differ_by_shape_and_not_by_colour_alone():
    styles = ["base", "sft", "ppo", "human"]
    dots = [Dot(i, i, style, style) for i, style in enumerate(styles)]
    drawn = drawing(plots.lines("t", [], [], dots=dots))
    shapes = {
        path.get("d")
        for path in drawn.findall(".//path")
        if path.get("class").startswith("dot")
    }
    assert len(shapes) == 4


def test_a_mark_has_its_label_above_the_line():
    figure = plots.lines(
        "t",
        [0, 10],
        [Series("s", "ppo", [0, 1])],
        marks=[Mark(5, "m", "1, 2")],
    )
    assert names(figure)["1, 2"] == (197, 8)
