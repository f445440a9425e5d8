"""A completion, graded once: every number that others ask for.

`grade` makes a Grade of each completion from the judge's verdict and the
text.  The style reward, what of it single tokens lost, and the numbers that
are monitored are functions of the grades.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess
from stylerl.judge.positions import offset
from stylerl.judge.verdict import Verdict, style_score
from stylerl.reward import gaming
from stylerl.reward.functions import TokenReward

# Rules on names that nothing uses, reported where they are bound, and on a
# body as a whole: the token there is not at fault.
PLACELESS = (
    *("F401", "F841", "F842", "ARG", "U10", "B007"),
    *("C901", "PLR09"),
)
WORD = re.compile(r"\b\w+")  # from its first character on


class Grade(NamedTuple):
    """One completion, as a linter and as a reader of its text see it."""

    prompt: str
    completion: str
    assessment: Assessment  # one that was cut is unfinished
    as_ended: Assessment  # as if it had ended there, which rewards go by
    parsed: bool  # prompt and completion, without their file
    statements: int
    trivial: bool
    arguments: float  # the share that the body reads, as of `_arguments`


def grade(
    judge: Judge,
    prompts: Sequence[str],
    completions: Sequence[str],
    finished: Sequence[bool],
) -> list[Grade]:
    """Grade completions, each in the file that its prompt comes from.

    Args:
        judge: with the places of the prompts.
        prompts: one of each completion.
        completions: what reward and judge see of them.
        finished: which ended before the token limit.

    Raises:
        ConfigError: flake8 refuses the configuration.
    """
    verdicts = judge.completions(prompts, completions, desc="ppo: judge")
    rows = zip(prompts, completions, finished, verdicts, strict=True)
    return [grade_of(*row) for row in rows]


def grade_of(
    prompt: str, completion: str, finished: bool, verdict: Verdict
) -> Grade:
    """Grade one completion by the verdict on it."""
    body = gaming.body_of(prompt, completion)
    statements = gaming.count_statements(body or [])
    return Grade(
        prompt,
        completion,
        assess(prompt, finished, verdict),
        assess(prompt, True, verdict),
        body is not None,
        statements,
        body is not None and gaming.is_trivial(body),
        _arguments(prompt, completion) if statements else 0.0,
    )


def _arguments(prompt: str, completion: str) -> float:
    """The share of its arguments that a body reads; 1 where it has none.

    0 where some of its code does nothing.
    """
    if gaming.has_idle_code(prompt, completion):
        return 0.0
    share = gaming.used_arguments(prompt, completion)
    return 1.0 if math.isnan(share) else share


def style(graded: Grade) -> float:
    """The style reward, 0 to 1: half for the score, half for compliance.

    What does not parse has 0, and so has a completion without a statement.
    """
    if not _is_code(graded):
        return 0.0
    count = len(graded.as_ended.violations)
    return 0.5 * style_score(count) + 0.5 * (count == 0)


def _is_code(graded: Grade) -> bool:
    """Whether a completion parses, in its file too, and has a statement."""
    parsed = graded.parsed and graded.as_ended.parsed
    return parsed and graded.statements > 0


def token_rewards(graded: Grade, factor: float = 1.0) -> list[TokenReward]:
    """The part of `factor` times the style reward that single tokens lost.

    What a completion misses is shared by its violations alike.  What has no
    place is left to the last action: a name that nothing uses, a body that is
    too complex, and all of a text that has no statement, or does not parse,
    whose one violation need not be where it broke.  A word
    is charged at its last character: a name is undefined once it is whole,
    and a charge reaches the tokens before it.
    """
    ended = graded.as_ended
    if not (_is_code(graded) and ended.violations):
        return []
    missed = factor * (1 - style(graded))
    text = graded.prompt + graded.completion
    return [
        TokenReward(
            _end_of_word(text, offset(text, violation)) - len(graded.prompt),
            -missed / len(ended.violations),
        )
        for violation in ended.violations
        if not violation.code.startswith(PLACELESS)
    ]


def _end_of_word(text: str, position: int) -> int:
    """The last character of the word whose first is at a position.

    The position, where there is none: E501 is at the column that is too many.
    """
    word = WORD.match(text, position)
    return word.end() - 1 if word else position


def monitored(grades: Sequence[Grade]) -> dict[str, list[float]]:
    """Named numbers, one a completion each; docs/ppo-log.md defines them.

    The linter's verdict, and each way to game a style reward.
    """
    rows = [
        {
            "score": graded.assessment.score,
            "compliance": graded.assessment.outcome is Outcome.COMPLIANT,
            "parse_rate": graded.parsed,
            "statements": graded.statements,
            "trivial": graded.trivial,
            "arguments": graded.arguments,
            "repeated_lines": gaming.repeated_line_share(graded.completion),
            "comment_lines": gaming.comment_line_share(graded.completion),
            "copied_prompt": gaming.copies_prompt(
                graded.prompt, graded.completion
            ),
            "noqa": gaming.mentions_noqa(graded.completion),
        }
        for graded in grades
    ]
    return {name: [float(row[name]) for row in rows] for name in rows[0]}
