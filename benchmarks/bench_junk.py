"""What junk gets of the reward beside the authors' bodies, kind by kind.

    python benchmarks/bench_junk.py --prompts FILE [--before FILE]

FILE is a table with the columns `text`, `body_start` and `ref`, what a
reference model wrote for the prompt (without it, the author's body).  The
reward is the default one before the KL toll, with the linter's verdicts.
`--save` writes the authors' rewards, which `--before` compares with.
Results go to benchmarks/results/junk.md.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from stylerl.config import JudgeConfig, PPOConfig
from stylerl.judge import Judge
from stylerl.reward import substance
from stylerl.reward.composite import compose, linter_style

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from junk import KINDS, body  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "junk.md"
PROMPTS = 96


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    table = pd.read_parquet(options.prompts)
    heads = [t[:at] for t, at in table[["text", "body_start"]].to_numpy()]
    table = table[~pd.Series(heads, table.index).duplicated()]
    starts = zip(table["text"], table["body_start"], strict=True)
    pairs = {text[:at]: text[at:] for text, at in starts}
    prompts = list(pairs)
    written = table["ref"] if "ref" in table else list(pairs.values())
    samples = {p: [t] for p, t in zip(prompts, written, strict=True)}
    linter = linter_style(Judge(JudgeConfig()))
    expected = substance.expected_sizes(samples)
    reward = compose(PPOConfig().reward, lambda _: linter, expected)

    def total(completions: list[str]) -> np.ndarray:
        found = reward(prompts[: len(completions)], completions)
        return np.sum([*found.values()], axis=0)

    authors = total(list(pairs.values()))
    if options.save:
        options.save.write_text(json.dumps(authors.tolist()))
    some = authors[:PROMPTS]
    rows = []
    for name in KINDS:
        found = total([body(name, each) for each in prompts[:PROMPTS]])
        above = (found > some + 1e-9).mean()
        rows.append((found.mean() / some.mean(), above, name))
    text = report(options, authors, sorted(rows, reverse=True))
    text += timing(list(pairs.items()))
    if not options.save:
        RESULTS.write_text(text, encoding="utf-8")
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
        f"`python benchmarks/bench_junk.py`: {len(rows)} kinds on {PROMPTS} "
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
