"""The gate that a policy passes to become champion.

Its gain in compliance must be clear, with the whole interval above zero:
over the present champion on the same prompts, or over its own SFT model
where there is no champion yet.  And no guard may have fallen, on prompts that
nothing was chosen by: those of the test split.
"""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from stylerl.errors import DataError
from stylerl.evaluation import comparison, display, guards
from stylerl.evaluation.display import Metrics
from stylerl.evaluation.guards import Guard

Table = Callable[[], pd.DataFrame]  # may raise DataError
ALREADY = Guard("this policy", True, "is champion already")


class Decision(NamedTuple):
    """The gate's decision: each line of it, and whether it held."""

    lines: list[Guard]

    @property
    def promoted(self) -> bool:
        """Whether every line held."""
        return all(line.held for line in self.lines)

    @property
    def text(self) -> str:
        """One sentence; a refusal names the lines that failed."""
        failed = [line for line in self.lines if not line.held]
        reasons = [f"{line.name} {line.text}" for line in failed]
        if failed:
            return f"not champion: {'; '.join(reasons)}"
        return f"champion: {self.lines[0].name} {self.lines[0].text}"

    @property
    def markdown(self) -> str:
        """The sentence, and every line of the gate."""
        lines = [line.markdown for line in self.lines]
        return "\n".join([f"**{self.text}**", "", *lines, ""])


def decide(
    metrics: Metrics, candidate: pd.DataFrame, champion: Table | None
) -> Decision:
    """Whether the candidate becomes champion.

    Args:
        metrics: the candidate's evaluation, metrics/evaluate.json.
        candidate: its table of completions.
        champion: reads the champion's; None where there is none yet.
    """
    if champion is None:
        first = _clear("gain over SFT", metrics["gain"])
    else:
        first = _gain_over(champion, candidate)
    split = candidate.attrs.get("split")
    if candidate.attrs.get("prompt_texts"):
        split = "evaluate.prompt_texts"  # a training may have seen them
    prompts = Guard(
        "prompts", split == "test", f"of {split}; they must be of test"
    )
    return Decision([first, prompts, *guards.guards(metrics)])


def _gain_over(champion: Table, candidate: pd.DataFrame) -> Guard:
    name = "gain over the champion"
    try:
        gain = comparison.compare(champion(), candidate)
    except DataError as error:
        return Guard(
            name,
            False,
            f"cannot be measured: {error}, or take the alias away in MLflow "
            "to begin anew",
        )
    return _clear(name, gain)


def _clear(name: str, gain: Metrics) -> Guard:
    """Whether the interval of the gain in compliance lies above zero."""
    compliance = display.metric_of("compliance")
    return Guard(
        name,
        gain["compliance_low"] > 0,
        f"{display.show_gain(compliance, gain)} points of compliance; the "
        "interval must lie above zero",
    )
