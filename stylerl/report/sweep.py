"""A sweep in the report: its plot, its table, and the page with both.

The page of the last evaluation is an output of DVC; what the last sweep found
is put into a copy, since a sweep is no input of an evaluation.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from stylerl import storage
from stylerl.errors import DataError
from stylerl.evaluation.frontier import Point, frontier
from stylerl.report import plots

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
REPORT = Path("artifacts/report/report.html")
SWEEP = Path("artifacts/sweep/sweep.json")
WITH_SWEEP = Path("artifacts/sweep/report.html")


def keep_sweep(points: Sequence[Point], basis: str, judge: str) -> None:
    """Leave a sweep's points for the report.

    Args:
        points: what was found.
        basis: the prompts it was found on, as summary.basis says.
        judge: the identity of the judge.
    """
    made = str(datetime.date.today())
    kept = {"date": made, "basis": basis, "judge": judge}
    rows = [point._asdict() for point in points]
    storage.write_json(SWEEP, {**kept, "points": rows})


def write_page() -> Path:
    """The page to open, after a sweep a new one.

    Raises:
        DataError: there was no evaluation yet.
    """
    if not REPORT.exists():
        raise DataError(f"{REPORT} does not exist; `stylerl run` writes it")
    if not SWEEP.exists():
        return REPORT
    kept = storage.read_json(SWEEP)
    points = [Point(**row) for row in kept.pop("points")]
    found = section(points, **kept)
    text = REPORT.read_text(encoding="utf-8")
    storage.write_text(WITH_SWEEP, text.replace(PLACE, found, 1))
    return WITH_SWEEP


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


def section(
    points: Sequence[Point], date: str, basis: str, judge: str
) -> Markup:
    """A section of the report: the plot and its values; as `keep_sweep`."""
    ranked = sorted(points, key=lambda p: (p.kl, p.compliance))
    best = frontier(ranked)
    # The plot: a numbered dot a point, a line through the frontier.
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
    # The table, under the same numbers.
    cell, head = Markup("<td>{}</td>"), Markup("<th>{}</th>")
    rows = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(map(cell.format, [number, *_row(point)]))
        )
        for number, point in enumerate(ranked, start=1)
    ]
    return SECTION.format(
        date=date,
        judge=judge[:12],
        basis=basis,
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
