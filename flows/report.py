"""The page that `stylerl report` opens.

It is the last evaluation's, an output of DVC; what the last sweep found is
put into a copy, since a sweep is no input of an evaluation.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path

from stylerl import frontier, storage
from stylerl.errors import DataError
from stylerl.frontier import Point, Sweep

REPORT = Path("artifacts/evaluate/report.html")
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
    section = frontier.section(Sweep(points=points, **kept))
    text = REPORT.read_text(encoding="utf-8")
    storage.write_text(WITH_SWEEP, text.replace(frontier.PLACE, section, 1))
    return WITH_SWEEP
