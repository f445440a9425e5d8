"""How often each model's completions are right, compliant, and both.

Notation: P problems, S samples of each.  All models finish the same problems
from the same random streams; differences are paired by problem.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import comb
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from stylerl.config import Params, SkillConfig
from stylerl.evaluation.measurement.bootstrap import (
    DIGITS,
    RESAMPLES,
    paired_intervals,
    spread,
)
from stylerl.evaluation.measurement.generations import STREAMS, load_model
from stylerl.judge import Judge
from stylerl.judge.outcome import Outcome, assess
from stylerl.judge.pool import cores
from stylerl.lm import sampling
from stylerl.skill import problems as humaneval
from stylerl.skill import sandbox
from stylerl.skill.problems import Problem, written
from stylerl.skill.trial import is_right

LINE_TOKENS = 64  # a line; twice what HumanEval's longest last one takes
WHOLE_TOKENS = 320  # of a whole body
TRIES = 10  # the k of pass@k, beside 1
GREEDY = -1  # the number of the sample that is none: the likeliest tokens
PAIRS = {"gain": ("ppo", "sft"), "gain_sft": ("sft", "base")}


def new_tokens(config: SkillConfig) -> int:
    """How many tokens a model may write."""
    return min(LINE_TOKENS * config.lines or WHOLE_TOKENS, WHOLE_TOKENS)


def finish(
    sources: Mapping[str, str], params: Params, judge: Judge, scratch: Path
) -> tuple[pd.DataFrame, str]:
    """The models' completions of problems that fit all of them, tested.

    Args:
        sources: the models, by name.
        params: of which skill, evaluate and the seed count.
        judge: of what is written.
        scratch: a folder for the problems' download.

    Returns:
        columns as of `complete` and `try_out`, and no word; or no rows, and
        why nothing was run.

    Raises:
        ModelError: a model, or the problems, cannot be loaded.
    """
    config = params.skill
    if config.tests == "none":
        return pd.DataFrame(), "skill.tests is none"
    if why := sandbox.why_not():
        return pd.DataFrame(), f"{why}; once one starts: dvc repro -sf skill"
    new = new_tokens(config)
    fits = sampling.fits_all(sources.values(), new)
    asked = [
        problem
        for problem in humaneval.problems(
            humaneval.load(scratch), config.lines
        )
        if fits(problem.prompt)
    ]
    if not asked:
        return pd.DataFrame(), f"no problem leaves room for {new} tokens"
    heat = params.evaluate.temperature
    table = complete(sources, asked, config, heat, params.seed)
    return try_out(table, asked, judge), ""


def summary(table: pd.DataFrame, why: str, params: Params) -> dict[str, Any]:
    """The metrics of what `finish` gives, and of how many problems."""
    if why:
        return {"problems": 0, "why_not": why}
    asked, samples = table["problem"].nunique(), params.skill.samples
    measured = metrics(table, RESAMPLES, params.seed)
    return {"problems": asked, "samples": samples, **measured}


def complete(
    sources: Mapping[str, str],
    problems: Sequence[Problem],
    config: SkillConfig,
    temperature: float,
    seed: int,
) -> pd.DataFrame:
    """The completions: columns `model, problem, sample, completion,
    finished`; sample -1 is greedy.

    Raises:
        ModelError: a model cannot be loaded, or has too few positions.
    """
    # All samples of a problem together, the greedy one too.
    numbers = [GREEDY, *range(config.samples)]
    rows = [(p, n) for p in range(len(problems)) for n in numbers]
    heats = [0.0, *[temperature] * config.samples] * len(problems)
    asked = [problems[place] for place, _ in rows]
    table: list[tuple[str, str, int, str, bool]] = []
    for name, source in sources.items():
        drawn = sampling.generate(
            *load_model(source),
            [problem.prompt for problem in asked],
            max_new_tokens=new_tokens(config),
            temperature=heats,
            seed=seed,
            rows=[(n + 1) * STREAMS + place for place, n in rows],
            ends=lambda text: written(text, False)[1],
            desc=f"skill: sample {name}",
        )
        table += [
            (name, problem.id, number, *written(text, ended))
            for problem, (_, number), text, ended in zip(
                asked, rows, drawn.texts, drawn.finished, strict=True
            )
        ]
    columns = ["model", "problem", "sample", "completion", "finished"]
    return pd.DataFrame(table, columns=columns)


def try_out(
    table: pd.DataFrame, problems: Sequence[Problem], judge: Judge
) -> pd.DataFrame:
    """The table with `right`, by the tests, and `compliant`, by the judge."""
    by_id = {problem.id: problem for problem in problems}
    asked = [by_id[name] for name in table["problem"]]
    pairs = [*zip(asked, table["completion"], strict=True)]
    # 1. The tests, each distinct completion once, several at once.
    distinct = [*dict.fromkeys(pairs)]
    with ThreadPoolExecutor(cores()) as threads:
        verdicts = threads.map(lambda pair: is_right(*pair), distinct)
        tried = [*tqdm(verdicts, "skill: tests", len(distinct), unit="text")]
    right = dict(zip(distinct, tried, strict=True))
    # 2. The judge, on what the model has written.
    items = [(None, problem.prompt, text) for problem, text in pairs]
    judged = judge.in_place(items, desc="skill: judge")
    compliant = [
        assess(problem.prompt, done, verdict).outcome is Outcome.COMPLIANT
        for problem, done, verdict in zip(
            asked, table["finished"], judged, strict=True
        )
    ]
    return table.assign(right=[right[p] for p in pairs], compliant=compliant)


def metrics(table: pd.DataFrame, resamples: int, seed: int) -> dict[str, Any]:
    """By model, and for the pairs of PAIRS; docs/metrics.md defines each."""
    by_problem = {
        str(name): _by_problem(rows)
        for name, rows in table.groupby("model", sort=False)
    }
    measured: dict[str, Any] = {}
    for name, columns in by_problem.items():
        means = columns.mean()
        measured[name] = {k: round(float(v), DIGITS) for k, v in means.items()}
        if means["skill"] > 0:
            share = float(means["joint"] / means["skill"])
            measured[name]["skill_compliance"] = round(share, DIGITS)
    for key, (after, before) in PAIRS.items():
        if after in by_problem and before in by_problem:
            change = by_problem[after] - by_problem[before]
            intervals = paired_intervals(change.to_numpy(), resamples, seed)
            measured[key] = {}
            for column, interval in zip(change, intervals, strict=True):
                measured[key] |= spread(str(column), interval)
    return measured


def _by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """(P, 4): shares of a problem's samples, and whether greedy is right.

    With TRIES samples a fifth: the chance that one of so many is right.
    """
    rows = rows.assign(joint=rows["right"] & rows["compliant"])
    drawn = rows[rows["sample"] != GREEDY].groupby("problem")
    greedy = rows[rows["sample"] == GREEDY].set_index("problem")
    shares = {
        "skill": drawn["right"].mean(),
        "joint": drawn["joint"].mean(),
        "skill_style": drawn["compliant"].mean(),
        "skill_greedy": greedy["right"],
    }
    if drawn.size().min() >= TRIES:
        shares["skill_of_10"] = drawn["right"].agg(pass_at)
    return pd.DataFrame(shares).astype(float)


def pass_at(right: Sequence[bool], tries: int = TRIES) -> float:
    """Whether one of `tries` samples is right: pass@k, unbiased, from more.

    1 - C(n - c, k) / C(n, k) with c right of n samples (Chen et al., arXiv
    2107.03374, equation 1).
    """
    n, c = len(right), sum(right)
    return 1 - comb(n - c, tries) / comb(n, tries)
