"""Write what a command can measure into README.md and docs/model-card.md.

    make results          after `make run`

Only the text between the markers `<!-- results -->` and
`<!-- /results -->` is replaced, from metrics/evaluate.json and
artifacts/base/training.json.
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
MARKED = re.compile(r"(?<=<!-- results -->\n).*(?=<!-- /results -->)", re.S)


def main() -> int:
    """Fill both documents."""
    params = config.load(ROOT / "params.yaml")
    metrics = storage.read_json(ROOT / "metrics/evaluate.json")
    fill(
        ROOT / "README.md",
        f"`preset: {params.preset}`, seed {params.seed}, "
        f"{platform.machine()}, {os.cpu_count()} cores:\n\n"
        + summary.markdown(metrics),
    )
    card = storage.read_json(ROOT / "artifacts/base/training.json")
    fill(ROOT / "docs/model-card.md", describe(card))
    return 0


def fill(path: Path, text: str) -> None:
    """Put `text` between the markers of a document."""
    content = path.read_text(encoding="utf-8")
    storage.write_text(
        path, MARKED.sub(lambda _: text.rstrip() + "\n", content)
    )


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
