"""Write what a command can measure into README.md and docs/model-card.md.

    make results          after `make run`

Only the text between the markers `<!-- NAME -->` and `<!-- /NAME -->` is
replaced: `results` from metrics/evaluate.json and
artifacts/base/training.json, `tokenizer` and `reward` with the tables of
benchmarks/results/NAME.md.
"""

import os
import platform
import re
import sys
from collections import Counter
from pathlib import Path

from stylerl import config, storage
from stylerl.report import summary

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks/results"


def main() -> int:
    """Fill both documents."""
    params = config.load(ROOT / "params.yaml")
    metrics = storage.read_json(ROOT / "metrics/evaluate.json")
    readme = ROOT / "README.md"
    fill(
        readme,
        "results",
        f"`preset: {params.preset}`, seed {params.seed}, "
        f"{platform.machine()}, {os.cpu_count()} cores:\n\n"
        + summary.markdown(metrics),
    )
    for name in ("tokenizer", "reward"):
        fill(readme, name, tables(BENCHMARKS / f"{name}.md"))
    card = storage.read_json(ROOT / "artifacts/base/training.json")
    fill(ROOT / "docs/model-card.md", "results", describe(card))
    return 0


def fill(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers `name` of a document."""
    marked = rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)"
    content = path.read_text(encoding="utf-8")
    new = re.sub(marked, lambda _: text.rstrip() + "\n", content, flags=re.S)
    storage.write_text(path, new)


def tables(path: Path) -> str:
    """The tables of a Markdown page, without the words around them."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return "\n\n".join(block for block in blocks if block.startswith("|"))


def describe(card: dict) -> str:
    """The embedded base's numbers, as Markdown."""
    shape, curve = card["config"], card["curve"]
    lines = [
        f"- Llama, {shape['layers']} blocks, width {shape['hidden']}, "
        f"{shape['heads']} heads, vocabulary {shape['vocabulary']}.",
        f"- Read: {card['snippets']:,} functions of "
        f"{len(card['distributions'])} distributions "
        f"(digest {card['digest']}), {curve[-1]['tokens']:,} tokens in all; "
        f"{card['rough_share']:.0%} of the bodies roughened, anew each time.",
        "",
        "| tokens | training loss, nats a token | held-out bits per byte |",
        "|---:|---:|---:|",
        *(
            f"| {point['tokens']:,} | {point['loss']:.3f} "
            f"| {point['valid_bits']:.3f} |"
            for point in curve
        ),
        "",
        "| licence, as declared | functions |",
        "|---|---:|",
    ]
    licences: Counter[str] = Counter()
    for _, _, licence, count in card["distributions"]:
        licences[licence] += count
    lines += [f"| {name} | {n:,} |" for name, n in licences.most_common()]
    lines += ["", "| distribution | version | functions |", "|---|---|---:|"]
    lines += [
        f"| {name} | {version} | {count:,} |"
        for name, version, _, count in sorted(
            card["distributions"], key=lambda row: -row[3]
        )
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
