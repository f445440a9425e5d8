"""Small charts as inline SVG, drawn by matplotlib.

Text and lines take their colours from the page's style sheet, so that a
chart follows light and dark: matplotlib draws in INKS, which become the
sheet's variables.  Lines are dashed and dots have shapes, so that nothing is
told by colour alone.
"""

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup, escape

from stylerl.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INKS = {
    name: f"#0000{number:02x}"
    for number, name in enumerate(
        ("base", "sft", "ppo", "human", "soft", "line", "bad"), 1
    )
}
LINES: dict[str, dict[str, Any]] = {  # by style, with the shape of its dots
    "base": {"linestyle": ":", "linewidth": 2, "marker": "^"},
    "sft": {"linestyle": "--", "linewidth": 1.6, "marker": "s"},
    "ppo": {"linestyle": "-", "linewidth": 1.6, "marker": "o"},
    "human": {"linestyle": "-", "linewidth": 0.8, "marker": "D"},
}
LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",  # the page's own font
    "text.parse_math": False,  # a $ is a $
    "font.size": 9,
    "text.color": INKS["soft"],
    "xtick.color": INKS["soft"],
    "ytick.color": INKS["soft"],
    "xtick.bottom": False,
    "ytick.left": False,
    "axes.edgecolor": INKS["line"],
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": INKS["line"],
}
SIZE = (4.2, 2.4)  # inches of 72 units; the page scales it
FEW_BARS = 16  # that have room for their values
CLOSE = 2.5  # in per cent: dots whose names would lie on one another


class Series(NamedTuple):
    """One line or one colour of bars; `style` is of LINES.

    A line has the chart's `xs`, or its own.
    """

    name: str
    style: str
    ys: Sequence[float]
    xs: Sequence[float] | None = None


class Mark(NamedTuple):
    """A moment worth a vertical line, such as an alarm."""

    x: float
    label: str  # above the line


class Dot(NamedTuple):
    """A single point with its name next to it, or above it."""

    x: float
    y: float
    text: str
    style: str
    above: bool = False


def lines(
    title: str,
    xs: Sequence[float],
    series: Sequence[Series],
    *,
    marks: Sequence[Mark] = (),
    dots: Sequence[Dot] = (),
    diagonal: bool = False,
) -> Markup:
    """Lines over shared `xs`; a gap where a value is not finite.

    With `diagonal`, the values are shares, and equal shares make a line.
    """

    def draw(axes: "Axes") -> None:
        if diagonal:
            axes.axline((0, 0), (1, 1), color=INKS["soft"], linestyle="--")
            axes.set(xlim=(0, 1), ylim=(0, 1))
        for mark in marks:
            axes.axvline(mark.x, color=INKS["bad"], linestyle="--")
            axes.annotate(
                mark.label, (mark.x, 1), xycoords=axes.get_xaxis_transform(),
                xytext=(0, 2), textcoords="offset points", ha="center",
            )  # fmt: skip
        for each in series:
            across = each.xs if each.xs is not None else xs
            axes.plot(
                across, each.ys, color=INKS[each.style], markersize=3,
                markevery=lone_points(each.ys), **LINES[each.style],
            )  # fmt: skip
        middle = max((dot.x for dot in dots), default=0) / 2
        named, up = -math.inf, 0  # the last dot with a name beside it
        for dot in sorted(dots, key=lambda dot: dot.y):
            axes.plot(
                dot.x, dot.y, LINES[dot.style]["marker"],
                color=INKS[dot.style], markersize=5,
            )  # fmt: skip
            side, align = (6, "left") if dot.x <= middle else (-6, "right")
            if not dot.above:
                up = up + 8 if dot.y - named < CLOSE else -3
                named = dot.y
            axes.annotate(
                dot.text,
                (dot.x, dot.y),
                xytext=(0, 5) if dot.above else (side, up),
                textcoords="offset points",
                ha="center" if dot.above else align,
            )

    return _figure(title, draw, series, "lines")


def bars(
    title: str, labels: Sequence[str], series: Sequence[Series]
) -> Markup:
    """Bars in groups, one group a label; none where a value is not finite.

    A few bars bear their values.
    """
    width = 0.8 / max(len(series), 1)

    def draw(axes: "Axes") -> None:
        for rank, each in enumerate(series):
            left = [place + rank * width for place in range(len(labels))]
            drawn = axes.bar(
                left, each.ys, width, align="edge", color=INKS[each.style]
            )
            if len(labels) * len(series) <= FEW_BARS:
                values = [f"{y:.0f}" if math.isfinite(y) else "" for y in
                          each.ys]  # fmt: skip
                axes.bar_label(drawn, values, padding=1)
        places = [place + 0.4 for place in range(len(labels))]
        axes.set_xticks(places, labels)

    return _figure(title, draw, series, "boxes")


def lone_points(ys: Sequence[float]) -> list[int]:
    """Which values stand between gaps, where a line would show nothing."""
    known = [False, *map(math.isfinite, ys), False]
    return [
        place
        for place, (before, here, after) in enumerate(
            zip(known, known[1:], known[2:], strict=False)
        )
        if here and not before and not after
    ]


def _figure(
    title: str,
    draw: Callable[["Axes"], None],
    series: Sequence[Series],
    kind: str,
) -> Markup:
    """A chart, with its title and a legend of two or more series."""
    require("pipeline", "matplotlib")
    from matplotlib import style
    from matplotlib.figure import Figure

    # Not as the user's matplotlibrc has it; ids are unique on a page.
    look: list[Any] = ["default", LOOK | {"svg.hashsalt": title}]
    with style.context(look), io.StringIO() as text:
        figure = Figure(SIZE, layout="constrained")
        draw(figure.subplots())
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=none)
        drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg ") :]
    drawing = re.sub(r'<g id="[^"]*"', "<g", drawing)  # of every chart
    for name, ink in INKS.items():
        drawing = drawing.replace(ink, f"var(--{name})")
    legend = "".join(
        f'<span class="key {each.style}">{escape(each.name)}</span>'
        for each in (series if len(series) > 1 else ())
    )
    return Markup(
        f'<figure class="chart {kind}"><figcaption>{escape(title)}{legend}'
        f'</figcaption><div role="img" aria-label="{escape(title)}">'
        f"{drawing}</div></figure>"
    )
