"""Small charts as inline SVG, drawn by matplotlib.

Text and lines take their colours from the page's style sheet, so that a
chart follows light and dark: matplotlib draws in INKS, which become the
sheet's variables.
"""

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INKS = {
    name: f"#0000{number:02x}"
    for number, name in enumerate(
        ("base", "sft", "ppo", "human", "soft", "line", "bad"), 1
    )
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


class Series(NamedTuple):
    """One colour of bars; `style` is of INKS."""

    name: str
    style: str
    ys: Sequence[float]


def line(
    title: str,
    xs: Sequence[float],
    ys: Sequence[float],
    marks: Sequence[float] = (),
) -> Markup:
    """One line, with upright ones at `marks`."""

    def draw(axes: "Axes") -> None:
        for mark in marks:
            axes.axvline(mark, color=INKS["bad"], linestyle="--")
        axes.plot(xs, ys, marker=".", color=INKS["ppo"])

    return _figure(title, draw)


def bars(
    title: str, labels: Sequence[str], series: Sequence[Series]
) -> Markup:
    """Bars in groups, one group a label; none where a value is not finite."""
    width = 0.8 / len(series)

    def draw(axes: "Axes") -> None:
        for rank, group in enumerate(series):
            left = [place + rank * width for place in range(len(labels))]
            drawn = axes.bar(
                left, group.ys, width, align="edge", color=INKS[group.style]
            )
            values = [f"{y:.0f}" if math.isfinite(y) else "" for y in group.ys]
            axes.bar_label(drawn, values, padding=1)
        places = [place + 0.4 for place in range(len(labels))]
        axes.set_xticks(places, labels)

    return _figure(title, draw, series)


def _figure(
    title: str,
    draw: Callable[["Axes"], None],
    series: Sequence[Series] = (),
) -> Markup:
    """A chart, with its title and a legend of the series."""
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
        f'<span class="key {group.style}">{escape(group.name)}</span>'
        for group in series
    )
    return Markup(
        f'<figure class="chart"><figcaption>{escape(title)}{legend}'
        f'</figcaption><div role="img" aria-label="{escape(title)}">'
        f"{drawing}</div></figure>"
    )
