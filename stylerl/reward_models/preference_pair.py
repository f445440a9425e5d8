"""What the pairwise reward model learns from: two texts, the better first."""

from typing import NamedTuple

UNPARSABLE = "E999"  # flake8's code of what does not parse


class Preference(NamedTuple):
    """Two texts of which the judge, or a person, prefers the first."""

    rule: str  # the rule they differ by, "" where several
    chosen: str
    rejected: str
    margin: float = 0.0  # by how much its reward should win, where known
