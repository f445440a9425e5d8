"""What a sweep found: at which distance from SFT which compliance is had.

A point is one setting of the swept parameters; a better one has more
compliance for the same KL, or less KL for the same compliance.  Neither says
what the gain cost, so each point also names the guards that failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from stylerl.report import plots, summary

HEADER = (
    "point", "KL to SFT, nats", "compliance %", "gain over SFT, points",
    "guards that failed",
)  # fmt: skip
PLACE = "<!-- sweep -->"  # of the section in report.html.j2
SECTION = Markup("""<h3>The last sweep</h3>
<p class="note">{date}, judge {judge}. {basis} One dot a run of its own,
 numbered by rising KL; the line joins those that no other one beats in
 both.</p>
<div class="charts one">{chart}</div>
<div class="scroll card"><table>
<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>
""")


class Point(NamedTuple):
    """One setting and what its policy reached."""

    setting: Mapping[str, Any]  # swept parameters, by dotted key
    kl: float  # to SFT, nats a response
    compliance: float  # share
    low: float  # of the gain in compliance over SFT, with its 95% interval
    gain: float
    high: float
    failed: Sequence[str]  # guards of the report, by name

    @property
    def name(self) -> str:
        """The setting in few words, such as `kl_coef 0.05`."""
        return ", ".join(
            f"{key.rpartition('.')[2]} {value}"
            for key, value in self.setting.items()
        )


class Sweep(NamedTuple):
    """The points of one sweep, and what they rest on."""

    points: Sequence[Point]
    date: str
    basis: str  # the prompts, in words
    judge: str  # its identity


def measured(setting: Mapping[str, Any], metrics: Mapping[str, Any]) -> Point:
    """The point of one evaluation, metrics/evaluate.json."""
    gain, policy = metrics["gain"], metrics["ppo"]
    return Point(
        setting,
        kl=policy["kl"],
        compliance=policy["compliance"],
        low=gain["compliance_low"],
        gain=gain["compliance"],
        high=gain["compliance_high"],
        failed=[g.name for g in summary.guards(metrics) if not g.held],
    )


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats.

    One beats another that has no less KL and no more compliance, and is not
    its equal in both.
    """
    return [
        point
        for point in points
        if not any(_beats(other, point) for other in points)
    ]


def markdown(points: Sequence[Point]) -> str:
    """A table of the points by rising KL, the frontier's in bold."""
    best = frontier(points)
    lines = [f"| {' | '.join(HEADER)} |", "|---|---:|---:|---:|---|"]
    for point in sorted(points, key=lambda p: p.kl):
        name, *numbers = _row(point)
        shown = f"**{name}**" if point in best else name
        lines.append(f"| {' | '.join([shown, *numbers])} |")
    return "\n".join(
        [*lines, "", "Bold: no other point is better in both.", ""]
    )


def section(sweep: Sweep) -> Markup:
    """A section of the report: the plot, and the numbers behind it."""
    points = sweep.points
    ranked = sorted(points, key=lambda p: (p.kl, p.compliance))
    best = frontier(ranked)
    dots = [
        plots.Dot(
            point.kl,
            100 * point.compliance,
            str(number),
            "ppo" if point in best else "sft",
            above=True,
        )
        for number, point in enumerate(ranked, start=1)
    ]
    heights = [100 * point.compliance for point in best]
    chart = plots.lines(
        "Compliance, %, by KL to SFT, nats a response",
        [point.kl for point in best],
        [plots.Series("frontier", "ppo", heights)],
        dots=dots,
    )
    cell, head = Markup("<td>{}</td>"), Markup("<th>{}</th>")
    rows = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(map(cell.format, [number, *_row(point)]))
        )
        for number, point in enumerate(ranked, start=1)
    ]
    return SECTION.format(
        date=sweep.date,
        judge=sweep.judge[:12],
        basis=sweep.basis,
        chart=chart,
        header=Markup("").join(map(head.format, ["", *HEADER])),
        rows=Markup("").join(rows),
    )


def _row(point: Point) -> list[str]:
    """The values under HEADER."""
    low, gain, high = (
        f"{100 * value:+.1f}" for value in (point.low, point.gain, point.high)
    )
    return [
        point.name,
        f"{point.kl:.2f}",
        f"{100 * point.compliance:.1f}",
        f"{gain} [{low}, {high}]",
        ", ".join(point.failed) or "none",
    ]


def _beats(one: Point, other: Point) -> bool:
    equal = (one.kl, one.compliance) == (other.kl, other.compliance)
    no_worse = one.kl <= other.kl and one.compliance >= other.compliance
    return no_worse and not equal
