"""Under load and under hostile hands: each part from this one command.

    python benchmarks/bench_load.py labels [--snippets N] [--every SECONDS]
    python benchmarks/bench_load.py kills FOLDER [--kills N] [--until HH:MM]
    python benchmarks/bench_load.py hostile [--sources N] [--files N]

Each part is a module of its own, load_PART.py, and fails where something was
lost.  Its figures take the place of those that it wrote before to
benchmarks/results/load.md.
"""

import argparse
import datetime
import re
import shlex
import subprocess
import sys
from pathlib import Path

import load_hostile
import load_kills
import load_labels
from bench_judge import machine

RESULTS = Path(__file__).parent / "results" / "load.md"
PARTS = {
    "labels": load_labels,
    "kills": load_kills,
    "hostile": load_hostile,
}


def main() -> None:
    """Measure one part, and put its section into the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, part in PARTS.items():
        part.add_options(parts.add_parser(name, help=part.TITLE))
    options = parser.parse_args()
    part = PARTS[options.part]
    command = shlex.join(["python", "benchmarks/bench_load.py", *sys.argv[1:]])
    found = part.measure(options)
    section = (
        f"## {part.TITLE}\n\n`{command}` at {commit()}, "
        f"{datetime.date.today()}, {machine()}\n\n{found.strip()}\n"
    )
    RESULTS.write_text(insert(RESULTS.read_text(), part.TITLE, section))
    print(section)


def commit() -> str:
    """The commit that is measured."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def insert(text: str, title: str, section: str) -> str:
    """The text with this section in the place of the one of its title."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kept = {each.partition("\n")[0]: each for each in sections}
    kept[f"## {title}"] = section
    return "\n".join(
        each.strip() + "\n" for each in [head, *(kept[k] for k in kept)]
    )


if __name__ == "__main__":
    main()
