"""Small charts as inline SVG, drawn by hand.

Text and lines take their colours from the page's style sheet, so that a
chart follows light and dark; the same data gives the same bytes, which a
plotting library does not promise from one version to the next.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 26


class Series(NamedTuple):
    """One line or one colour of bars; `style` is a CSS class.

    A line has the chart's `xs`, or its own.
    """

    name: str
    style: str
    ys: Sequence[float]
    xs: Sequence[float] | None = None


class Mark(NamedTuple):
    """A moment worth a vertical line, such as an alarm."""

    x: float
    text: str


class Dot(NamedTuple):
    """A single point with its name next to it, or above it."""

    x: float
    y: float
    text: str
    style: str
    above: bool = False


class Scale(NamedTuple):
    """A linear map from data to the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Position of `value` in drawing units."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


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
    places = [*xs, *(dot.x for dot in dots)]
    places += [x for each in series for x in each.xs or ()]
    x = _scale(places, LEFT, WIDTH - RIGHT)
    values = [y for each in series for y in each.ys]
    values += [dot.y for dot in dots]
    values += [0, 1] if diagonal else []
    y = _scale(values, HEIGHT - BOTTOM, TOP)
    body = [_axes(x, y)]
    if diagonal:
        body.append(
            f'<path class="rule" d="M{_at(x(x.low))} {_at(y(x.low))}'
            f'L{_at(x(x.high))} {_at(y(x.high))}"/>'
        )
    for mark in marks:
        body.append(
            f'<path class="alarm" d="M{_at(x(mark.x))} {TOP}V'
            f'{HEIGHT - BOTTOM}"><title>{escape(mark.text)}</title></path>'
        )
    for each in series:
        body.append(
            f'<path class="line {each.style}" '
            f'd="{_path(each.xs or xs, each.ys, x, y)}">'
            f"<title>{escape(each.name)}</title></path>"
        )
    body += [_dot(dot, x(dot.x), y(dot.y)) for dot in dots]
    return _figure(title, body, series)


def bars(
    title: str, labels: Sequence[str], series: Sequence[Series]
) -> Markup:
    """Bars in groups, one group a label."""
    x = Scale(0, max(len(labels), 1), LEFT, WIDTH - RIGHT)
    y = _scale([0, *(v for s in series for v in s.ys)], HEIGHT - BOTTOM, TOP)
    body = [_axes(None, y)]
    step = 0.8 / max(len(series), 1)
    for place, label in enumerate(labels):
        body.append(_text(x(place + 0.5), HEIGHT - 10, label, "middle"))
        for rank, each in enumerate(series):
            left = x(place + 0.1 + rank * step)
            top = y(each.ys[place])
            body.append(
                f'<rect class="bar {each.style}" x="{_at(left)}" '
                f'y="{_at(top)}" width="{_at(x(step) - x(0))}" '
                f'height="{_at(y(0) - top)}"><title>'
                f"{escape(each.name)}, {escape(label)}: {each.ys[place]:.3g}"
                "</title></rect>"
            )
    return _figure(title, body, series)


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A scale over the finite values, widened to round numbers."""
    finite = [value for value in values if math.isfinite(value)] or [0, 1]
    low, high = min(finite), max(finite)
    if high - low < 1e-9 * max(1.0, abs(low)):
        low, high = low - 0.5, high + 0.5
    step = _step(high - low)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(low, high, start, end)


def _step(span: float) -> float:
    """The round step (1, 2 or 5 times a power of ten) of about 4 ticks."""
    power = 10 ** math.floor(math.log10(span / 4))
    return next(
        factor * power
        for factor in (1, 2, 5, 10)
        if span / 4 <= factor * power
    )


def _ticks(scale: Scale) -> list[float]:
    step = _step(scale.high - scale.low)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _axes(x: Scale | None, y: Scale) -> str:
    parts = []
    for tick in _ticks(y):
        height = y(tick)
        parts.append(
            f'<path class="grid" d="M{LEFT} {_at(height)}H{WIDTH - RIGHT}"/>'
            + _text(LEFT - 6, height + 4, _number(tick), "end")
        )
    if x is None:
        return "".join(parts)
    for tick in _ticks(x):
        parts.append(_text(x(tick), HEIGHT - 10, _number(tick), "middle"))
    return "".join(parts)


def _path(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> str:
    """SVG path commands; a lone point becomes a dot by its round cap."""
    commands, pen = [], "M"
    for across, up in zip(xs, ys, strict=True):
        if not math.isfinite(up):
            pen = "M"
            continue
        point = f"{_at(x(across))} {_at(y(up))}"
        commands.append(f"{pen}{point}" + ("h0" if pen == "M" else ""))
        pen = "L"
    return "".join(commands)


def _dot(dot: Dot, x: float, y: float) -> str:
    """A dot, its name above, or on the side where there is room."""
    left = x > (LEFT + WIDTH - RIGHT) / 2
    place, anchor = (x - 8, "end") if left else (x + 8, "start")
    height = y + 4
    if dot.above:
        place, anchor, height = x, "middle", y - 8
    return (
        f'<circle class="dot {dot.style}" cx="{_at(x)}" cy="{_at(y)}" r="4">'
        f"<title>{escape(dot.text)}: {dot.x:.3g}, {dot.y:.3g}</title>"
        f"</circle>{_text(place, height, dot.text, anchor)}"
    )


def _figure(
    title: str, body: Sequence[str], series: Sequence[Series]
) -> Markup:
    legend = "".join(
        f'<span class="key {each.style}">{escape(each.name)}</span>'
        for each in (series if len(series) > 1 else ())
    )
    drawing = "".join(body)
    return Markup(
        f'<figure class="chart"><figcaption>{escape(title)}{legend}'
        f'</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{drawing}</svg></figure>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{_at(x)}" y="{_at(y)}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _at(position: float) -> str:
    return f"{position:.1f}".removesuffix(".0")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("e-0", "e-").replace("-", "−")
