"""What junk gets of the reward beside the authors' bodies, kind by kind.

    python benchmarks/bench_junk.py --prompts FILE [--files FILE]

FILE is a table with the columns `text`, `body_start` and `ref`, what a
reference model wrote for the prompt (without it, the author's body).  The
reward is the default one before the KL toll, with the linter's verdicts.
With `--files artifacts/filter/files.parquet` and `--prompts
artifacts/filter/snippets.parquet`, functions of the validation split are
judged in their files, whose names and attributes are known.  `--save` writes
the authors' rewards, which `--before` compares with.  Results go to
benchmarks/results/junk.md, or junk-in-files.md.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from stylerl.config import JudgeConfig, PPOConfig
from stylerl.data import places
from stylerl.judge import Judge
from stylerl.judge.place import Place
from stylerl.reward import substance
from stylerl.reward.composite import compose, linter_style

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from junk import INVENTED, KINDS, body  # noqa: E402

RESULTS = Path(__file__).parent / "results"
PROMPTS = 96
AUTHORS = 368  # of the validation split


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    table = pd.read_parquet(options.prompts)
    where: dict[str, Place] = {}
    if options.files:
        table = table[(table["split"] == "valid") & (table["body_start"] > 0)]
        table = table.sample(AUTHORS, random_state=0)
        by_id = places.places(options.files, table)
        for name, text, at in table[["id", "text", "body_start"]].to_numpy():
            if name in by_id:
                where[text[:at]] = by_id[name]
    heads = [t[:at] for t, at in table[["text", "body_start"]].to_numpy()]
    table = table[~pd.Series(heads, table.index).duplicated()]
    starts = zip(table["text"], table["body_start"], strict=True)
    pairs = {text[:at]: text[at:] for text, at in starts}
    prompts = list(pairs)
    written = table["ref"] if "ref" in table else list(pairs.values())
    samples = {p: [t] for p, t in zip(prompts, written, strict=True)}
    judge = Judge(JudgeConfig(), places=where)
    linter = linter_style(judge)
    config = PPOConfig()
    expected = substance.expected_sizes(
        samples, judge.around, target=config.substance_target
    )
    reward = compose(config.reward, lambda _: linter, expected, judge.around)

    def total(completions: list[str]) -> np.ndarray:
        found = reward(prompts[: len(completions)], completions)
        return np.sum([*found.values()], axis=0)

    authors = total(list(pairs.values()))
    if options.save:
        options.save.write_text(json.dumps(authors.tolist()))
    some = authors[:PROMPTS]
    rows = []
    for name in KINDS | INVENTED if options.files else KINDS:
        found = total([body(name, each) for each in prompts[:PROMPTS]])
        above = (found > some + 1e-9).mean()
        rows.append((found.mean() / some.mean(), above, name))
    text = report(options, authors, sorted(rows, reverse=True))
    text += timing(list(pairs.items()))
    if not options.save:
        name = "junk-in-files.md" if options.files else "junk.md"
        (RESULTS / name).write_text(text, encoding="utf-8")
    print(text)


def report(
    options: argparse.Namespace,
    authors: np.ndarray,
    rows: list[tuple[float, float, str]],
) -> str:
    """The Markdown page."""
    lines = [
        "# Junk beside the authors' bodies",
        "",
        f"`python {shlex.join(sys.argv)}`: {len(rows)} kinds on {PROMPTS} "
        f"prompts; authors' mean {authors.mean():.2f} on {len(authors)}.",
        "",
        f"- {sum(r[0] > 0.6 for r in rows)} kinds above 60% of the authors' "
        f"mean; {sum(r[1] > 0.05 for r in rows)} above the author's own on "
        "more than 5% of prompts.",
    ]
    if options.before:
        before = np.array(json.loads(options.before.read_text()))
        kept = (authors >= 0.9 * before).mean()
        lines.append(
            f"- {kept:.1%} of the authors' bodies keep nine tenths of their "
            f"reward before (mean {before.mean():.2f})."
        )
    lines += ["", "| kind | % of authors' mean | % above |", "|---|---:|---:|"]
    lines += [f"| {n} | {100 * r:.0f} | {100 * a:.0f} |" for r, a, n in rows]
    return "\n".join([*lines, ""])


def timing(pairs: list[tuple[str, str]]) -> str:
    """How long measuring a completion takes, the least of three."""
    least = min(timed(pairs) for _ in range(3))
    return f"\n{least:.2f} ms to measure an author's body.\n"


def timed(pairs: list[tuple[str, str]]) -> float:
    """Milliseconds of CPU a body."""
    start = time.process_time()
    for each in pairs:
        substance.measure(*each)
    return (time.process_time() - start) / len(pairs) * 1e3


if __name__ == "__main__":
    main()
