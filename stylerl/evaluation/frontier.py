"""What a sweep found: at which distance from SFT which compliance is had.

A point is one setting of the swept parameters; a better one has more
compliance for the same KL, or less KL for the same compliance.  Neither says
what the gain cost, so each point also names the guards that failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stylerl.evaluation import guards


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


def point_of(setting: Mapping[str, Any], metrics: Mapping[str, Any]) -> Point:
    """The point of one evaluation, metrics/evaluate.json."""
    gain, policy = metrics["gain"], metrics["ppo"]
    return Point(
        setting,
        kl=policy["kl"],
        compliance=policy["compliance"],
        low=gain["compliance_low"],
        gain=gain["compliance"],
        high=gain["compliance_high"],
        failed=[g.name for g in guards.guards(metrics) if not g.held],
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


def _beats(one: Point, other: Point) -> bool:
    equal = (one.kl, one.compliance) == (other.kl, other.compliance)
    no_worse = one.kl <= other.kl and one.compliance >= other.compliance
    return no_worse and not equal
