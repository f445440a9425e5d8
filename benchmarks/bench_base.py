"""Base models side by side, on functions that none of them has read.

    python benchmarks/bench_base.py [FOLDER...]

Bits per byte of the test split's functions, the short ones that the first
base was trained on and the longer ones apart, beside what each model is and
how much it read.  20 tokens a parameter is the compute-optimal budget of
Hoffmann et al. 2022 (arXiv 2203.15556).  The first table of
benchmarks/results/bases.md is the model card's (`make results`).
"""

import argparse
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from bench_judge import machine

from stylerl import storage
from stylerl.lm import models
from stylerl.lm.sampling import fits_all
from stylerl.supervised.pretrain import bits_per_byte

SNIPPETS = Path("artifacts/filter/snippets.parquet")
RESULTS = Path(__file__).parent / "results" / "bases.md"
SHORT = 400  # characters
OPTIMAL = 20  # tokens a parameter
HEADER = (
    "| base | parameters | tokens read | of the compute-optimal number | "
    f"bits per byte, up to {SHORT} characters | longer |"
)


def main() -> None:
    """Measure each folder and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", default=["artifacts/base"])
    parser.add_argument("--texts", type=int, default=1000, help="a range")
    options = parser.parse_args()
    # A document is a text between two ends: one more than a prompt has.
    fits = fits_all([(folder, "main") for folder in options.folders], 1)
    short, long = draw(options.texts, fits)
    rows = [row(folder, short, long) for folder in options.folders]
    table = "\n".join([HEADER, "|---|---:|---:|---:|---:|---:|", *rows])
    command = " ".join(["benchmarks/bench_base.py", *sys.argv[1:]])
    text = (
        "# The embedded base, before and after\n\n"
        f"`python {command}`, {datetime.date.today()}, {machine()}\n\n"
        f"{len(short)} and {len(long)} functions of the test split.\n\n"
        f"{table}\n"
    )
    storage.write_text(RESULTS, text)
    print(text)


def draw(
    count: int, fits: Callable[[str], bool]
) -> tuple[list[str], list[str]]:
    """Up to `count` test functions of each range that every base can read,
    drawn by one seed."""
    snippets = pd.read_parquet(SNIPPETS, columns=["text", "split"])
    texts = snippets.loc[snippets["split"] == "test", "text"]
    texts = texts[texts.map(fits)]
    is_short = texts.str.len() <= SHORT
    drawn = [
        part.sample(min(count, len(part)), random_state=0).tolist()
        for part in (texts[is_short], texts[~is_short])
    ]
    return drawn[0], drawn[1]


def row(folder: str, short: list[str], long: list[str]) -> str:
    """One line of the table."""
    tokenizer = models.load_tokenizer(folder)
    model = models.load_causal_lm(folder, tokenizer=tokenizer)
    parameters = sum(weights.numel() for weights in model.parameters())
    made = json.loads(Path(folder, "training.json").read_text())
    read = made["curve"][-1]["tokens"]
    bits = [
        f"{bits_per_byte(model, tokenizer, texts):.3f}" if texts else "–"
        for texts in (short, long)
    ]
    share = read / (OPTIMAL * parameters)
    cells = [folder, f"{parameters:,}", f"{read:,}", f"{share:.0%}", *bits]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
