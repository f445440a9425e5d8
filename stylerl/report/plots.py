"""Small charts as inline SVG, drawn by hand.

Text and lines take their colours from the page's style sheet, so that a
chart follows light and dark; it also dashes lines, and dots have shapes, so
that nothing is told by colour alone.  The same data gives the same bytes,
which a plotting library does not promise from one version to the next.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 26
FEW_BARS = 16  # that have room for their values
LETTER, LINE = 6, 11  # size of a letter, roughly, in drawing units
SHAPES = {  # around 0 0; a dot of another style is a circle
    "sft": "M-4 -4h8v8h-8Z",
    "base": "M0 -5L5 4H-5Z",
    "human": "M0 -5L5 0L0 5L-5 0Z",
}
CIRCLE = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z"


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
    label: str = ""  # above the line


class Dot(NamedTuple):
    """A single point with its name next to it, or above it.

    Where that place is taken, the name is put where there is room.
    """

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
            + _text(x(mark.x), TOP - 2, mark.label, "middle")
        )
    for each in series:
        body.append(
            f'<path class="line {each.style}" '
            f'd="{_path(each.xs or xs, each.ys, x, y)}">'
            f"<title>{escape(each.name)}</title></path>"
        )
    body += _dots(dots, x, y)
    return _figure(title, body, series, "lines")


def bars(
    title: str, labels: Sequence[str], series: Sequence[Series]
) -> Markup:
    """Bars in groups, one group a label; none where a value is not finite.

    A few bars bear their values.
    """
    x = Scale(0, max(len(labels), 1), LEFT, WIDTH - RIGHT)
    y = _scale([0, *(v for s in series for v in s.ys)], HEIGHT - BOTTOM, TOP)
    body = [_axes(None, y)]
    step = 0.8 / max(len(series), 1)
    few = len(labels) * len(series) <= FEW_BARS
    for place, label in enumerate(labels):
        body.append(_text(x(place + 0.5), HEIGHT - 10, label, "middle"))
        for rank, each in enumerate(series):
            if not math.isfinite(each.ys[place]):
                continue
            left = x(place + 0.1 + rank * step)
            top = y(each.ys[place])
            body.append(
                f'<rect class="bar {each.style}" x="{_at(left)}" '
                f'y="{_at(top)}" width="{_at(x(step) - x(0))}" '
                f'height="{_at(y(0) - top)}"><title>'
                f"{escape(each.name)}, {escape(label)}: {each.ys[place]:.3g}"
                "</title></rect>"
            )
            if few:
                middle = left + (x(step) - x(0)) / 2
                value = f"{each.ys[place]:.0f}"
                body.append(_text(middle, top - 3, value, "middle"))
    return _figure(title, body, series, "boxes")


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


def _dots(dots: Sequence[Dot], x: Scale, y: Scale) -> list[str]:
    """Dots in their shapes, with names that do not lie on one another."""
    taken = [(x(dot.x) - 4, y(dot.y) - 4, 8.0, 8.0) for dot in dots]
    drawn = []
    for dot in dots:
        right, height = x(dot.x), y(dot.y)
        width = LETTER * len(dot.text)
        beside = [(right + 8, height + 4, "start"),
                  (right - 8, height + 4, "end")]  # fmt: skip
        if right > (LEFT + WIDTH - RIGHT) / 2:
            beside.reverse()
        over = [(right, height - 8, "middle"), (right, height + 16, "middle")]
        places = [*over, *beside] if dot.above else [*beside, *over]
        # Then further up and down, as far as the drawing goes.
        places += [
            (across, height + 4 + step, anchor)
            for step in (-12, 12, -24, 24, -36, 36)
            for across, _, anchor in beside
        ]
        boxes = [_box(*place, width) for place in places]
        free = (i for i, b in enumerate(boxes) if _is_free(b, taken))
        chosen = next(free, 0)
        taken.append(boxes[chosen])
        shape = SHAPES.get(dot.style, CIRCLE)
        drawn.append(
            f'<path class="dot {dot.style}" d="{shape}" transform="translate('
            f'{_at(right)} {_at(height)})"><title>{escape(dot.text)}: '
            f"{dot.x:.3g}, {dot.y:.3g}</title></path>"
            + _text(*places[chosen][:2], dot.text, places[chosen][2])
        )
    return drawn


Box = tuple[float, float, float, float]  # left, top, width, height


def _box(x: float, y: float, anchor: str, width: float) -> Box:
    """Where a text of that width lies."""
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return left, y - LINE + 2, width, LINE


def _is_free(box: Box, taken: Sequence[Box]) -> bool:
    """Whether a box lies in the drawing, and on none of those taken."""
    left, top, width, height = box
    if not (left >= 0 and top >= 0 and left + width <= WIDTH):
        return False
    return top + height <= HEIGHT - BOTTOM + 4 and not any(
        left < other + wide
        and other < left + width
        and top < upper + high
        and upper < top + height
        for other, upper, wide, high in taken
    )


def _figure(
    title: str, body: Sequence[str], series: Sequence[Series], kind: str
) -> Markup:
    legend = "".join(
        f'<span class="key {each.style}">{escape(each.name)}</span>'
        for each in (series if len(series) > 1 else ())
    )
    drawing = "".join(body)
    return Markup(
        f'<figure class="chart {kind}"><figcaption>{escape(title)}{legend}'
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
