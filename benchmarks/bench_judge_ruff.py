"""The judge's ruff against the ruff command: same files, same findings.

    python benchmarks/bench_judge_ruff.py [--files N]

Files of the installed packages are copied into a project with the names that
they have there, packages whole as far as `__init__.py` goes.  Under each of
some configurations, `ruff check` in that project, which finds the
configuration by itself, and `stylerl.judge` judge all of them; one difference
in row, column, code or text, and nothing is written.  Results go to
benchmarks/results/judge_ruff.md; it takes a minute.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sysconfig
import tempfile
import time
from collections import defaultdict
from importlib import metadata
from pathlib import Path

from ruff import find_ruff_bin

from stylerl.config import JudgeConfig
from stylerl.judge import Judge, Source, Verdict

RESULTS = Path(__file__).parent / "results" / "judge_ruff.md"
BY_NAME = """
[tool.ruff.lint.per-file-ignores]
"tests/*" = ["S", "D"]
"**/__init__.py" = ["F401", "D104"]
"!numpy/**" = ["E501"]
"pandas/core/*" = ["PLR", "C901"]
"""
CONFIGURATIONS = {
    "ruff's defaults": "[tool.ruff]\nline-length = 88\n",
    "E, W, F at 79, fixes switched on": (
        "[tool.ruff]\nline-length = 79\nfix = true\nunsafe-fixes = true\n"
        'lint.select = ["E", "W", "F"]\n'
    ),
    "all rules": '[tool.ruff]\nlint.select = ["ALL"]\n',
    "all rules, preview, by file names": (
        '[project]\nname = "p"\nrequires-python = ">=3.9"\n[tool.ruff]\n'
        'preview = true\nlint.select = ["ALL"]\n' + BY_NAME
    ),
}

Found = dict[str, list[tuple[int, int, str, str]]]


def main() -> None:
    """Compare and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=1000, metavar="N")
    options = parser.parse_args()
    lines = [
        "# The judge's ruff against the ruff command",
        "",
        f"`python benchmarks/bench_judge_ruff.py --files {options.files}`, "
        f"{datetime.date.today()}, ruff {metadata.version('ruff')}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "",
        "Files of the installed packages, in a project of their own; row, "
        "column, code and text of every finding are equal, and no file was "
        "changed.",
        "",
        "| configuration | files | findings | not parsed | judge's time, "
        "command = 1 |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        project = Path(os.path.realpath(folder))
        files = copy_files(project, options.files)
        before = {file: (project / file).read_bytes() for file in files}
        for name, text in CONFIGURATIONS.items():
            (project / "pyproject.toml").write_text(text)
            lines.append(compare(name, project, before))
        if any((project / f).read_bytes() != before[f] for f in files):
            raise SystemExit("a file was changed")
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def copy_files(project: Path, count: int) -> list[str]:
    """Copy files drawn at random, and what makes their folders packages."""
    origin = Path(sysconfig.get_path("purelib"))
    every = sorted(origin.rglob("*.py"))
    drawn = random.Random(0).sample(every, count)
    inits = {
        init
        for path in drawn
        for parent in path.relative_to(origin).parents
        if (init := origin / parent / "__init__.py").is_file()
    }
    for path in {*drawn, *inits}:
        to = project / path.relative_to(origin)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
    return sorted(str(path.relative_to(origin)) for path in drawn)


def compare(name: str, project: Path, contents: dict[str, bytes]) -> str:
    """A row of the table; ends the benchmark where a finding differs."""
    config = JudgeConfig(engine="ruff", config=f"{project}/pyproject.toml")
    started = time.perf_counter()
    files = (Source(content, file) for file, content in contents.items())
    verdicts = [*Judge(config).judge_files(files)]
    ours = time.perf_counter() - started
    started = time.perf_counter()
    theirs = command(project, [*contents])
    took = time.perf_counter() - started
    for file, verdict in zip(contents, verdicts, strict=True):
        if [*verdict.violations] != sorted(theirs[file]):
            both = {*verdict.violations} ^ {*theirs[file]}
            raise SystemExit(f"{name}: {file}: {sorted(both)[:5]}")
    return row(name, verdicts, ours / took)


def command(project: Path, files: list[str]) -> Found:
    """What `ruff check` finds in the project, by file."""
    done = subprocess.run(
        [
            *(find_ruff_bin(), "check", "--no-cache", "--no-fix"),
            *("--ignore-noqa", "--output-format", "json", *files),
        ],
        cwd=project,
        capture_output=True,
        check=False,
    )
    found: Found = defaultdict(list)
    for each in json.loads(done.stdout):
        at = each["location"]
        file = os.path.relpath(each["filename"], project)
        found[file].append(
            (
                *(at["row"], at["column"]),
                # In preview, syntax errors and new rules have a name alone.
                each["code"] or each["name"],
                each["message"],
            )
        )
    return found


def row(name: str, verdicts: list[Verdict], ratio: float) -> str:
    """A line of the table."""
    findings = sum(len(verdict.violations) for verdict in verdicts)
    unread = sum(not verdict.parsed for verdict in verdicts)
    return (
        f"| {name} | {len(verdicts)} | {findings} | {unread} | {ratio:.1f} |"
    )


if __name__ == "__main__":
    main()
