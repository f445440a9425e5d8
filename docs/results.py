"""Write what a command can measure into README.md and docs/model-card.md.

    make results          after `make run`

Only the text between the markers `<!-- NAME -->` and `<!-- /NAME -->` is
replaced: `results` from metrics/evaluate.json, artifacts/base/training.json
and artifacts/filter/snippets.parquet, `seeds` and `original` from the presets
and what benchmarks/bench_run.py kept, `tokenizer`, `reward` and `baselines`
with the first table of benchmarks/results/NAME.md.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stylerl import config, storage
from stylerl.errors import DataError
from stylerl.report import summary

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks/results"
RUNS = BENCHMARKS / "runs"
SNIPPETS = "artifacts/filter/snippets.parquet"
BASE_METRICS = ("compliance", "parse_rate", "finished_rate", "length_median")
SEED_METRICS = (
    "compliance", "parse_rate", "length_median", "statements", "distinct_3",
)  # fmt: skip


def main() -> int:
    """Fill both documents."""
    params = config.load(ROOT / "params.yaml")
    metrics = storage.read_json(ROOT / "metrics/evaluate.json")
    readme = ROOT / "README.md"
    fill(
        readme,
        "results",
        f"`preset: {params.preset}`, {timed(params.seed, metrics)}:\n\n"
        + summary.markdown(metrics)
        + alarms(),
    )
    fill(readme, "seeds", seeds())
    fill(readme, "original", original())
    for name in ("tokenizer", "reward", "baselines"):
        fill(readme, name, table(BENCHMARKS / f"{name}.md"))
    card = storage.read_json(ROOT / "artifacts/base/training.json")
    text = describe(card) + "\n".join(
        [
            unseen(card),
            measured(metrics, params.evaluate.temperature),
            "",
            *tables(card),
        ]
    )
    fill(ROOT / "docs/model-card.md", "results", text)
    return 0


def fill(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers `name` of a document."""
    marked = rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)"
    content = path.read_text(encoding="utf-8")
    whole = text.rstrip() + "\n"
    new, found = re.subn(marked, lambda _: whole, content, flags=re.S)
    if not found:
        raise DataError(f"{path} has no markers <!-- {name} -->")
    storage.write_text(path, new)


def timed(seed: int, metrics: Mapping[str, Any]) -> str:
    """Where the metrics come from, and how long it took."""
    run = storage.read_json(RUNS / f"seed-{seed}.json")
    if run["evaluate"] != metrics:
        raise DataError(
            f"metrics/evaluate.json is not that of {RUNS}/seed-{seed}.json: "
            f"run benchmarks/bench_run.py seed-{seed} --set seed={seed}"
        )
    return (
        f"`{run['command']}` at {run['commit']} in a clean clone, "
        f"{run['date']}, {run['machine']}: {run['seconds'] / 60:.1f} minutes, "
        f"the largest process {run['largest_process_gib']} GiB"
    )


def alarms() -> str:
    """How often each alarm of PPO sounded, as a sentence."""
    table = pd.read_csv(ROOT / "metrics/ppo.csv")
    rows = table["alarms"].dropna().str.split("; ")
    counts = Counter(name for names in rows for name in names)
    said = [f"{name} in {n}" for name, n in counts.most_common()]
    return (
        f"\nAlarms during PPO's {len(table)} updates: "
        f"{', '.join(said) or 'none'}."
    )


def seeds() -> str:
    """What PPO did to SFT in runs that differ in their seed, as a table."""
    shown = [metric for metric in summary.TABLE if metric.key in SEED_METRICS]
    lines = [
        "| seed | minutes | "
        + " | ".join(f"{m.label}: SFT, PPO" for m in shown)
        + " | compliance, PPO - SFT | guards that failed |",
        "|---:|---:|" + "---:|" * len(shown) + "---:|---|",
    ]
    for path in sorted(RUNS.glob("seed-*.json")):
        run = storage.read_json(path)
        metrics = run["evaluate"]
        gain = summary.show_gain(summary.TABLE[0], metrics["gain"])
        failed = [g.name for g in summary.guards(metrics) if not g.held]
        row = [
            path.stem.removeprefix("seed-"),
            f"{run['seconds'] / 60:.1f}",
            *(_before_after(metrics, metric) for metric in shown),
            gain,
            ", ".join(failed) or "none",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _before_after(metrics: Mapping[str, Any], metric: summary.Metric) -> str:
    """SFT's value and PPO's."""
    return ", ".join(
        summary.show(metric, metrics[model][metric.key])
        for model in ("sft", "ppo")
    )


def original() -> str:
    """The notebook's configuration beside the default, as a table."""
    ours, theirs = (
        config.from_preset(name) for name in ("default", "notebook")
    )
    rows = (
        ("base model", "sft", "base"),
        ("columns", "judge", "max_line_length"),
        ("a snippet is a", "filter", "unit"),
        ("clean snippets for SFT", "sft", "snippets"),
        ("reward model from", "reward", "base"),
        ("labels it learns", "reward", "labels"),
        ("PPO's reward", "ppo", "reward"),
        ("PPO's updates", "ppo", "updates"),
        ("episodes an update", "ppo", "batch_size"),
        ("clip range", "ppo", "cliprange"),
    )
    lines = ["| | the notebook | default |", "|---|---|---|"]
    for label, section, key in rows:
        cells = (
            _words(getattr(getattr(params, section), key))
            for params in (theirs, ours)
        )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        "| prompts PPO learns on | "
        f"{len(theirs.ppo.prompt_texts)}, which are judged as well "
        f"| {ours.ppo.prompts}, of other distributions than the judged ones |",
        "| completions judged, before and after | "
        + " | ".join(
            f"{prompts} prompts x {params.evaluate.samples}"
            for prompts, params in (
                (len(theirs.evaluate.prompt_texts), theirs),
                (ours.evaluate.prompts, ours),
            )
        )
        + " |",
    ]
    runs = [
        storage.read_json(RUNS / f"{name}.json")
        for name in ("notebook", f"seed-{ours.seed}")
    ]
    compliance = summary.TABLE[0]
    measured = {
        "measured: AUROC of the classifier": lambda run: (
            f"{run['reward']['classifier']['auroc']:.2f}"
        ),
        "measured: compliance %, SFT and PPO": lambda run: _before_after(
            run["evaluate"], compliance
        ),
        "measured: PPO - SFT (95% interval)": lambda run: summary.show_gain(
            compliance, run["evaluate"]["gain"]
        ),
        "measured: minutes": lambda run: f"{run['seconds'] / 60:.1f}",
    }
    lines += [
        f"| {label} | {' | '.join(map(cell, runs))} |"
        for label, cell in measured.items()
    ]
    return "\n".join(lines)


def _words(value: Any) -> str:
    """A parameter's value as a cell."""
    if isinstance(value, Mapping):
        return " + ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(path: Path) -> str:
    """The first table of a Markdown page."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return next(block for block in blocks if block.startswith("|"))


def describe(card: dict) -> str:
    """The embedded base's shape and training, as Markdown."""
    shape, curve = card["config"], card["curve"]
    return (
        f"- Llama, {shape['layers']} blocks, width {shape['hidden']}, "
        f"{shape['heads']} heads, vocabulary {shape['vocabulary']}.\n"
        f"- Read: {card['snippets']:,} functions of "
        f"{len(card['distributions'])} distributions "
        f"(digest {card['digest']}), {curve[-1]['tokens']:,} tokens in all; "
        f"{card['rough_share']:.0%} of the bodies roughened, anew each time.\n"
    )


def unseen(card: dict) -> str:
    """That no held-out distribution is among those the base has read.

    Raises:
        DataError: one is.
    """
    columns = ["distribution", "split"]
    snippets = pd.read_parquet(ROOT / SNIPPETS, columns=columns)
    held_out = {*snippets.loc[snippets["split"] != "train", "distribution"]}
    if both := held_out & {row[0] for row in card["distributions"]}:
        raise DataError(f"the base has read {', '.join(sorted(both))}")
    return (
        f"- It has read none of the {len(held_out)} distributions in today's "
        "valid and test splits."
    )


def measured(metrics: Mapping[str, Any], temperature: float) -> str:
    """What the base writes on the evaluation's prompts, beside people."""
    base, human, size = (metrics[k] for k in ("base", "human", "size"))
    said = [
        f"{metric.label} {summary.show(metric, base[metric.key])}"
        f" (the human's {summary.show(metric, human[metric.key])})"
        for metric in summary.TABLE
        if metric.key in BASE_METRICS
    ]
    return (
        f"- On {size['prompts']} held-out prompts, {size['samples']} samples "
        f"each, at temperature {temperature}: {'; '.join(said)}."
    )


def tables(card: dict) -> list[str]:
    """Its loss curve, the licences, and what it read, as Markdown tables."""
    licences: Counter[str] = Counter()
    for _, _, licence, count in card["distributions"]:
        licences[licence] += count
    return [
        "| tokens | training loss, nats a token | held-out bits per byte |",
        "|---:|---:|---:|",
        *(
            f"| {point['tokens']:,} | {point['loss']:.3f} "
            f"| {point['valid_bits']:.3f} |"
            for point in card["curve"]
        ),
        "",
        "| licence, as declared | functions |",
        "|---|---:|",
        *(
            f"| {name.replace('|', 'or')} | {n:,} |"
            for name, n in licences.most_common()
        ),
        "",
        "| distribution | version | functions |",
        "|---|---|---:|",
        *(
            f"| {name} | {version} | {count:,} |"
            for name, version, _, count in sorted(
                card["distributions"], key=lambda row: -row[3]
            )
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
