"""What a check of `stylerl doctor` says.

What was looked at, what was found, and, where it is not well, what to do
about it in plain words.
"""

from enum import StrEnum
from typing import NamedTuple

from rich.table import Table
from rich.text import Text


class Status(StrEnum):
    """How a check came out; only FAIL stops a run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One line of the doctor's table."""

    check: str
    detail: str
    remedy: str = ""  # where it is not well
    fatal: bool = True  # a run would fail, not only be worse than it could

    @property
    def status(self) -> Status:
        """OK without a remedy."""
        if not self.remedy:
            return Status.OK
        return Status.FAIL if self.fatal else Status.WARN


def render(findings: list[Finding]) -> Table:
    """The findings as a table for the terminal."""
    colours = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}
    table = Table(show_header=False, box=None, padding=(0, 1))
    for finding in findings:
        colour = colours[finding.status]
        table.add_row(
            Text(f"{finding.status:>4}", colour),
            finding.check,
            Text(finding.detail),
        )
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", colour))
    return table
