"""Pairs of texts for the pairwise reward model, better one first.

Three sources: minimal pairs, one rule apart and as many for each rule as the
code has places for; whole bodies corrupted in several ways at once; and code
broken so that it does not parse.  Every pair is confirmed by the judge.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from stylerl.corrupt import RULES, break_once, corrupt_style
from stylerl.corrupt.syntax_errors import break_syntax
from stylerl.judge import Judge

# Names that the file of a snippet would define, and it alone does not.
OF_THE_FILE = {"F821", "F822"}
SPARE = 1.5  # drafts for each minimal pair wanted; the judge drops some
UNPARSABLE = "E999"  # flake8's code of what does not parse


class Preference(NamedTuple):
    """Two texts of which the judge, or a person, prefers the first."""

    rule: str  # the rule they differ by, "" where several
    chosen: str
    rejected: str
    margin: float = 0.0  # by how much its reward should win, where known


def preferences(
    labels: pd.DataFrame, judge: Judge, count: int, seed: int
) -> list[Preference]:
    """About `count` pairs from rows of labels.parquet, in random order.

    Half are minimal pairs, balanced over the rules; the other half are
    compliant snippets beside a corrupted version.  There are fewer where
    there are too few compliant snippets as found.
    """
    pairs = minimal(labels, judge, count // 2, seed)
    rng = random.Random(f"{seed}:rough")
    pairs += corrupted(labels, judge, count - len(pairs), rng)
    rng.shuffle(pairs)
    return pairs


def clean_rows(labels: pd.DataFrame) -> list[tuple[str, int]]:
    """Text and body start of the compliant snippets as found."""
    clean = labels[labels["compliant"] & (labels["rules"].map(len) == 0)]
    return list(zip(clean["text"], clean["body_start"], strict=True))


def minimal(
    labels: pd.DataFrame, judge: Judge, count: int, seed: int
) -> list[Preference]:
    """Up to `count` minimal pairs, as many for each rule as can be had."""
    rng = random.Random(f"{seed}:minimal")
    drafts = _balanced(clean_rows(labels), SPARE * count, rng)
    confirmed = [
        draft
        for draft, parsed, codes in _judged(drafts, judge)
        if parsed and codes == {draft.rule}
    ]
    return confirmed[:count]


def corrupted(
    labels: pd.DataFrame, judge: Judge, count: int, rng: random.Random
) -> list[Preference]:
    """Up to `count` compliant snippets beside a corrupted version."""
    drafts = [
        Preference("", text, corrupt_style(text, start, rng)[0])
        for text, start in clean_rows(labels)[:count]
    ]
    changed = [draft for draft in drafts if draft.rejected != draft.chosen]
    return [
        draft
        for draft, parsed, codes in _judged(changed, judge)
        if parsed and codes
    ]


def unparsable(
    labels: pd.DataFrame, judge: Judge, count: int, rng: random.Random
) -> list[Preference]:
    """Up to `count` compliant snippets beside a version that is broken.

    Fewer where there are too few snippets: one is broken once.
    """
    snippets = clean_rows(labels)
    drafts = []
    for text, start in rng.sample(snippets, min(count, len(snippets))):
        changed = break_syntax(text, start, rng)
        if changed is not None:
            drafts.append(Preference(UNPARSABLE, text, changed))
    return [draft for draft, parsed, _ in _judged(drafts, judge) if not parsed]


def _judged(
    drafts: Sequence[Preference], judge: Judge
) -> Iterator[tuple[Preference, bool, set[str]]]:
    """Each draft, and of its worse text whether it parses and the rules that
    it breaks, but for OF_THE_FILE."""
    texts = [draft.rejected for draft in drafts]
    verdicts = judge.verdicts(texts, desc="reward: pairs")
    for draft, verdict in zip(drafts, verdicts, strict=True):
        codes = {violation.code for violation in verdict.violations}
        yield draft, verdict.parsed, codes - OF_THE_FILE


def _balanced(
    snippets: Sequence[tuple[str, int]], count: float, rng: random.Random
) -> list[Preference]:
    """Some `count` drafts, each by the rules used least so far."""
    share = math.ceil(count / max(len(snippets), 1))
    used: Counter[str] = Counter()
    drafts: list[Preference] = []
    for text, start in snippets:
        order = sorted(RULES, key=lambda rule: (used[rule], rng.random()))
        attempts = ((r, break_once(r, text, start, rng)) for r in order)
        made = (
            Preference(r, text, new) for r, new in attempts if new is not None
        )
        chosen = list(itertools.islice(made, share))
        used.update(draft.rule for draft in chosen)
        drafts += chosen
        if len(drafts) >= count:
            break
    return drafts
