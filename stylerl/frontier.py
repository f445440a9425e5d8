"""What a sweep found: at which distance from SFT which compliance is had.

A point is one setting of the swept parameters; a better one has more
compliance for the same KL, or less KL for the same compliance.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Point(NamedTuple):
    """One setting and what its policy reached."""

    setting: Mapping[str, Any]  # swept parameters, by dotted key
    kl: float  # to SFT, nats a response
    compliance: float  # share
    low: float  # of the gain in compliance over SFT, with its 95% interval
    gain: float
    high: float

    @property
    def name(self) -> str:
        """The setting in few words, such as `kl_coef 0.05`."""
        return ", ".join(
            f"{key.rpartition('.')[2]} {value}"
            for key, value in self.setting.items()
        )


def measured(setting: Mapping[str, Any], metrics: Mapping[str, Any]) -> Point:
    """The point of one evaluation, metrics/evaluate.json."""
    gain = metrics["gain"]
    ends = (gain[f"compliance{end}"] for end in ("_low", "", "_high"))
    policy = metrics["ppo"]
    return Point(setting, policy["kl"], policy["compliance"], *ends)


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
    lines = [
        "| point | KL to SFT, nats | compliance % | gain over SFT, points |",
        "|---|---:|---:|---:|",
    ]
    for point in sorted(points, key=lambda p: p.kl):
        name = f"**{point.name}**" if point in best else point.name
        low, gain, high = (
            f"{100 * value:+.1f}"
            for value in (point.low, point.gain, point.high)
        )
        lines.append(
            f"| {name} | {point.kl:.2f} | {100 * point.compliance:.1f} "
            f"| {gain} [{low}, {high}] |"
        )
    return "\n".join(
        [*lines, "", "Bold: no other point is better in both.", ""]
    )


def _beats(one: Point, other: Point) -> bool:
    equal = (one.kl, one.compliance) == (other.kl, other.compliance)
    no_worse = one.kl <= other.kl and one.compliance >= other.compliance
    return no_worse and not equal
