"""Write what a command can measure into the documents.

    make results          after `make run`

A document says what it wants: the text between the markers `<!-- NAME -->`
and `<!-- /NAME -->` is replaced by what TEXTS gives for NAME, from
metrics/evaluate.json and metrics/ppo.csv, from what benchmarks/bench_run.py
kept of whole runs, from what `stylerl evaluate` measured of their models on
more prompts (runs/prompts-SEED.json), from runs/h100.json, which a script
wrote that is not kept, or from the first table of benchmarks/results/NAME.md.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from stylerl import config, storage
from stylerl.errors import DataError
from stylerl.evaluation import display, guards
from stylerl.export import card
from stylerl.report import summary

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "docs/results.md",
    "docs/model-card.md",
    "docs/policy-card.md",
    "docs/decisions/0033-judged-in-its-file.md",
)
MARKED = re.compile(
    r"<!-- (?P<name>[\w-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL
)
BENCHMARKS = ROOT / "benchmarks/results"
RUNS = BENCHMARKS / "runs"
DEFAULT = ("seed-[0-9].json", "seed-[0-9]-zen-*.json")  # today's settings
PAID = (  # for arguments too
    *DEFAULT, "seed-[0-9]-above-*.json", "seed-[0-9]-floor-*.json",
)  # fmt: skip
LINTER = RUNS / "seed-0-linter.json"  # the reward is the linter alone
EARLIER = RUNS / "seed-0-earlier.json"  # the same, with c1b8287's labels
STRICT = RUNS / "strict-0.json"  # by the stages' commands
BASE_METRICS = ("compliance", "parse_rate", "finished_rate", "length_median")
HEADLINE_METRICS = (  # the first ROWS of them that a run has
    "residual_compliance", "standardised_residual", "compliance",
    "standardised_compliance", "skill", "joint", "used_arguments",
    "parse_rate", "length_median", "resolved_names", "kl", "statements",
    "bits_per_byte",
)  # fmt: skip
ROWS = 9  # of the README's table
ARGUMENTS_METRICS = (
    "used_arguments", "standardised_compliance", "standardised_residual",
    "residual_cut", "joint",
)  # fmt: skip
MANY_METRICS = (
    "residual_compliance", "standardised_residual", "standardised_compliance",
    "non_compliance_cut", "parse_rate", "used_arguments", "length_median",
    "statements", "ruff",
)  # fmt: skip
SEED_METRICS = (
    "compliance", "parse_rate", "length_median", "statements", "distinct_3",
    "skill",
)  # fmt: skip


def main() -> str | None:
    """Fill every document; what is missing, in one line, if a run is."""
    try:
        for name in DOCUMENTS:
            fill(ROOT / name)
    except DataError as error:
        return f"results: {error}"
    return None


def fill(path: Path) -> None:
    """Put its text between each pair of markers of a document.

    Raises:
        DataError: there is no text of that name.
    """

    def text(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TEXTS:
            raise DataError(
                f"{path} has markers <!-- {name} -->; the names are "
                f"{', '.join(TEXTS)}"
            )
        return f"<!-- {name} -->\n{TEXTS[name]().rstrip()}\n<!-- /{name} -->"

    content = path.read_text(encoding="utf-8")
    storage.write_text(path, MARKED.sub(text, content))


def measured() -> dict[str, Any]:
    """The metrics of the last run."""
    return storage.read_json(ROOT / "metrics/evaluate.json")


def results() -> str:
    """Everything that the last run measured, before and after."""
    return f"{source()}:\n\n{summary.markdown(measured())}{alarms()}"


def lead() -> str:
    """What today's settings gain: on many prompts, and in how many runs."""
    runs, large, size = runs_of(DEFAULT), many_prompts(), measured()["size"]
    words = {
        "residual_compliance": "after ruff's fixes and format",
        "standardised_residual": "after them at SFT's lengths",
        "standardised_compliance": "as written at SFT's lengths",
    }

    def gained(key: str) -> str:
        metric = display.metric_of(key)
        gains = (run["gain"] for run in large.values())
        return " and ".join(display.show_gain(metric, g) for g in gains)

    clear = [
        sum(run["gain"][f"{key}_low"] > 0 for run in runs.values())
        for key in words
    ]
    rivals = [
        run[summary.LINTER.format(size["samples"])]["over_sft_standardised"]
        >= run["gain"]["standardised_compliance"]
        for run in runs.values()
    ]
    prompts = {run["size"]["prompts"] for run in large.values()}
    points = (f"{text} by {gained(key)}" for key, text in words.items())
    return (
        f"**On {', '.join(map(str, prompts))} held-out prompts PPO complies "
        f"more often than SFT {', '.join(points)} points ("
        f"{' and '.join(large)}, asked once their runs had been seen). It "
        f"cuts non-compliance by {gained(guards.CUT.key)} per cent; the goal "
        f"is {guards.CUT_GOAL:.0%}.** On the {size['prompts']} prompts of a "
        f"run these gains are clear in {', '.join(map(str, clear))} of "
        f"{len(runs)} runs, and the best of {size['samples']} of SFT's "
        "samples by the linter gains as much or more at SFT's lengths in "
        f"{sum(rivals)}; HumanEval is finished clearly less often in "
        f"{_lost_skill(run['gain'] for run in runs.values())}."
    )


def many_prompts() -> dict[str, Any]:
    """What models of kept runs measured on many prompts, by their seeds."""
    return {
        f"seed {path.stem.removeprefix('prompts-')}": storage.read_json(path)[
            "evaluate"
        ]
        for path in sorted(RUNS.glob("prompts-*.json"))
    }


def many() -> str:
    """The models of kept runs on many prompts, as a table."""
    runs = many_prompts()
    rows = [["metric", *(f"{name}: SFT, PPO, difference" for name in runs)]]
    for key in MANY_METRICS:
        metric = display.metric_of(key)
        cells = [
            f"{_before_after(run, metric)}, "
            f"{display.show_gain(metric, run['gain'])}"
            for run in runs.values()
        ]
        rows.append([metric.label, *cells])
    rows.append(["goals missed, guards failed", *map(_failed, runs.values())])
    return summary.markdown_table(rows)


def headline() -> str:
    """What the last run did, in one sentence and a short table."""
    metrics = measured()
    pooled = storage.read_json(RUNS / "h100.json")["less_sft"]
    others = {
        name: run["gain"]
        for name, run in runs_of(DEFAULT).items()
        if run != metrics
    } | {"5 seeds, the linter alone": pooled}
    return "\n\n".join(
        [
            summary.bold_headline(metrics),
            f"{source()}. {summary.basis(metrics)}",
            short_table(metrics, others),
        ]
    )


def short_table(
    metrics: Mapping[str, Any],
    others: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """The first rows of a run's table, and what others gained, by name."""
    known = {m.key: m for m in display.measured(metrics)}
    wanted = [known[key] for key in HEADLINE_METRICS if key in known][:ROWS]
    gains = {"PPO - SFT [95%]": metrics["gain"], **(others or {})}
    rows = [["metric", "base", "SFT", "PPO", *gains]]
    for metric in wanted:
        values = display.show_models(metric, metrics)
        shown = [display.show_gain(metric, gain) for gain in gains.values()]
        rows.append([metric.label, *values, *shown])
    return summary.markdown_table(rows)


def runs_of(patterns: Iterable[str]) -> dict[str, Any]:
    """What kept runs measured, by their names."""
    paths = [path for name in patterns for path in sorted(RUNS.glob(name))]
    return {
        f"seed {_seed(path)}": storage.read_json(path)["evaluate"]
        for path in paths
    }


def questions() -> str:
    """What tokens are charged for, and the sceptic's two questions."""
    metrics, pooled = measured(), storage.read_json(RUNS / "h100.json")
    runs = runs_of(PAID)
    by_linter = [
        storage.read_json(path)["evaluate"]["gain"]
        for path in RUNS.glob("seed-*.json")
        if f"seed {_seed(path)}" not in runs
    ] + [*pooled["by_seed"].values()]

    def less(key: str) -> str:
        metric = display.metric_of(key)
        return display.show_gain(metric, pooled["less_last_token"])

    failed = ", ".join(g.name for g in guards.guards(metrics) if not g.held)
    arguments, authors = display.metric_of("used_arguments"), ""
    if arguments.key in metrics["human"]:
        read = display.show(arguments, metrics["human"][arguments.key])
        authors = f" (the authors read {read}%)"
    return (
        "- **Token-level credit.** flake8 names each violation's row and "
        "column; PPO charges it to the token that was sampled there, what is "
        "unused or does not parse to the whole body. What that changes "
        "over [a reward on the last token]"
        "(docs/decisions/0017-credit.md#evidence), "
        f"{len(pooled['by_seed'])} seeds on an H100, paid by the linter "
        "(intervals over seeds): as written at SFT's lengths "
        f"{less('standardised_compliance')} points, after the fixer "
        f"{less('residual_compliance')}, right and compliant "
        f"{less('joint')}; it costs statements, {less('statements')}.\n"
        "- **Why not just run a formatter?** It was run, on every completion "
        "of every model: ruff's safe fixes and its format. What complies "
        f"after it: {_change(metrics, 'residual_compliance')}. "
        f"{left_by_fixer(metrics)}\n"
        "- **Did the model get worse at its job?** "
        f"**By HumanEval clearly in "
        f"{_lost_skill(run['gain'] for run in runs.values())}** with "
        f"arguments in the reward, in {_lost_skill(by_linter)} with the "
        "linter alone. Each writes the last line of HumanEval's "
        "solutions [in a sandbox](docs/decisions/0038-skill.md), and their "
        f"tests decide. Right: {_change(metrics, 'skill')}; right and "
        f"compliant: {_change(metrics, 'joint')}. Arguments of their "
        "functions that bodies read: "
        f"{_change(metrics, 'used_arguments')}{authors}. "
        f"[Guards](docs/metrics.md#guards) that failed: {failed or 'none'}.\n"
        f"{stricter()}"
    )


def left_by_fixer(metrics: Mapping[str, Any]) -> str:
    """What the fixer leaves, by its first rule, and how a rival does there."""
    rules = pd.read_csv(ROOT / "metrics/rules.csv", index_col="rule")
    most = rules["sft_fixed"].idxmax()
    before, after = rules.loc[most, ["sft_fixed", "ppo_fixed"]]
    samples = metrics["size"]["samples"]
    rival = metrics[summary.LINTER.format(samples)]
    residual = display.metric_of("residual_compliance")
    return (
        f"Of what safe fixes leave, [most](metrics/rules.csv) is {most}: "
        f"{before:.1f} in 100 of SFT's, {after:.1f} of PPO's. Without PPO, "
        f"the best of {samples} by the linter and the fixer: "
        f"{display.show(residual, rival[residual.key])}%."
    )


def stricter() -> str:
    """A run under examples/strict.toml, as a point of the README."""
    metrics = storage.read_json(STRICT)["evaluate"]
    others = {
        f"seed {path.stem.removeprefix('strict-')}": gain
        for path in sorted(RUNS.glob("strict-*.json"))
        if path != STRICT
        for gain in [storage.read_json(path)["evaluate"]["gain"]]
    }
    said = {
        words: _change(metrics, key, others)
        for words, key in (
            ("after the fixer", "residual_compliance"),
            ("right and compliant", "joint"),
            ("arguments read", "used_arguments"),
        )
    }
    rivals = [
        label
        for name, label in summary.best_of(metrics)
        if metrics[name]["over_sft"] > metrics["gain"]["compliance"]
    ]
    more = f" {', '.join(rivals)} gains more." if rivals else ""
    return (
        "- **A guide that no formatter can meet.** With [ruff's rules on "
        "unused arguments, likely bugs, returns and complexity]"
        "(examples/strict.toml), seed 0: "
        f"{'; '.join(f'{words} {text}' for words, text in said.items())}. "
        f"Missed or failed: {_failed(metrics)}.{more} "
        "[All of it](docs/results.md#a-strict-guide)."
    )


def strict() -> str:
    """What was measured under examples/strict.toml."""
    run = storage.read_json(STRICT)
    metrics = run["evaluate"]
    made = ", ".join(run[key] for key in ("commit", "date", "machine"))
    return "\n\n".join(
        [
            summary.bold_headline(metrics),
            f"At {made}. {summary.basis(metrics)}",
            short_table(metrics),
        ]
    )


def arguments() -> str:
    """Runs paid for arguments that are read, or whose guide asks for them,
    beside the linter alone."""
    found = {
        "the linter alone, earlier": storage.read_json(EARLIER)["evaluate"],
        "the linter alone": storage.read_json(LINTER)["evaluate"],
    }
    found |= {
        f"and arguments, {name}": run for name, run in runs_of(PAID).items()
    }
    for path in sorted(RUNS.glob("arguments-*.json")):
        seed = path.stem.rpartition("-")[2]
        run = storage.read_json(path)["evaluate"]
        found[f"U100 in the guide, seed {seed}"] = run
    rows = [["PPO less SFT", *found]]
    for key in ARGUMENTS_METRICS:
        metric = display.metric_of(key)
        gains = [display.show_gain(metric, m["gain"]) for m in found.values()]
        rows.append([metric.label, *gains])
    for key in ("length_median", "statements"):
        metric = display.metric_of(key)
        both = [_before_after(each, metric) for each in found.values()]
        rows.append([f"{metric.label}: SFT, PPO", *both])
    return summary.markdown_table(rows)


def _change(
    metrics: Mapping[str, Any],
    key: str,
    others: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """SFT's value, PPO's, and the difference with its interval.

    Those of others that measured it follow, by their names.
    """
    metric = display.metric_of(key)
    if key not in metrics["gain"]:
        return "not measured"
    before, after = (
        display.show(metric, metrics[model][key]) for model in ("sft", "ppo")
    )
    gain = display.show_gain(metric, metrics["gain"])
    said = [
        f"{name}: {display.show_gain(metric, each)}"
        for name, each in (others or {}).items()
        if key in each
    ]
    more = f" ({'; '.join(said)})" if said else ""
    return f"of SFT's {before}%, of PPO's {after}%, {gain} points{more}"


def _lost_skill(gains: Iterable[Mapping[str, float]]) -> str:
    """In how many runs that measured skill it is clearly worse."""
    highs = [each["skill_high"] for each in gains if "skill_high" in each]
    return f"{sum(high < 0 for high in highs)} of {len(highs)} runs"


def policy() -> str:
    """The policy of the last run: its scores, its judge and its guards."""
    metrics = measured()
    judge = storage.read_json(ROOT / "metrics/label.json")["judge"]
    learned = storage.read_json(ROOT / "metrics/sft.json")["snippets"]
    params = config.load(ROOT / "params.yaml")
    return "\n".join(
        [
            f"{source()}. {summary.basis(metrics)}",
            "",
            short_table(metrics),
            "",
            summary.external_linters(metrics),
            "",
            card.training(params, judge, learned),
            "",
            *(
                each.markdown
                for each in (*guards.goals(metrics), *guards.guards(metrics))
                if not each.held
            ),
            "",
            "No other goal was missed, and no other guard failed "
            "([all of them](results.md)).",
            alarms(),
        ]
    )


def source() -> str:
    """Which run the metrics come from, and how long it took.

    Raises:
        DataError: no kept run has these metrics.
    """
    params = config.load(ROOT / "params.yaml")
    run = storage.read_json(RUNS / f"seed-{params.seed}.json")
    if run["evaluate"] != measured():
        raise DataError(
            f"metrics/evaluate.json is not that of "
            f"{RUNS}/seed-{params.seed}.json: run benchmarks/bench_run.py "
            f"seed-{params.seed} --set seed={params.seed}"
        )
    cost = "some of its stages were there before, so not timed"
    if run["seconds"]:
        cost = (
            f"in a clean clone {minutes(run)} minutes, the largest process "
            f"{run['largest_process_gib']} GiB"
        )
    return (
        f"`preset: {params.preset}`, `{run['command']}` at {run['commit']} "
        f"on {run['date']}, {run['machine']}: {cost}"
    )


def minutes(run: dict[str, Any]) -> str:
    """What a run took; a dash for one that was not timed."""
    return f"{run['seconds'] / 60:.1f}" if run["seconds"] else "–"


def alarms() -> str:
    """In how many updates each alarm of PPO was raised, as a sentence."""
    return f"\n{card.alarms(pd.read_csv(ROOT / 'metrics/ppo.csv'))}"


def seeds() -> str:
    """What PPO did to SFT in runs that differ in their seed, as a table."""
    shown = [metric for metric in display.TABLE if metric.key in SEED_METRICS]
    lines = [
        "| seed | commit | minutes | "
        + " | ".join(f"{m.label}: SFT, PPO" for m in shown)
        + " | non-compliance cut % | compliance, PPO - SFT "
        "| at SFT's lengths | goals missed, guards failed "
        "| updates with an alarm |",
        "|---:|---|---:|" + "---:|" * len(shown) + "---:|---:|---:|---|---:|",
    ]
    for path in sorted(RUNS.glob("seed-*.json"), key=lambda p: p.stem):
        run = storage.read_json(path)
        metrics = run["evaluate"]
        gain = metrics["gain"]
        row = [
            _seed(path),
            run["commit"],
            minutes(run),
            *(_before_after(metrics, metric) for metric in shown),
            display.show(guards.CUT, gain.get(guards.CUT.key)),
            display.show_gain(display.metric_of("compliance"), gain),
            display.show_gain(guards.STANDARDISED, gain),
            _failed(metrics),
            str(run["ppo"]["alarms"]),
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _failed(metrics: Mapping[str, Any]) -> str:
    """The goals that were missed, and the guards that failed."""
    asked = (*guards.goals(metrics), *guards.guards(metrics))
    return ", ".join(each.name for each in asked if not each.held) or "none"


def _seed(path: Path) -> str:
    """What a kept run is called: its seed, and what else tells it apart."""
    number, *words = path.stem.removeprefix("seed-").split("-")
    return ", ".join([number, " ".join(words)]) if words else number


def _before_after(metrics: Mapping[str, Any], metric: display.Metric) -> str:
    """SFT's value and PPO's."""
    return ", ".join(
        display.show(metric, metrics[model].get(metric.key))
        for model in ("sft", "ppo")
    )


def table(name: str) -> str:
    """The first table of a benchmark's results."""
    text = (BENCHMARKS / f"{name}.md").read_text(encoding="utf-8")
    return next(block for block in text.split("\n\n") if block[0] == "|")


def base() -> str:
    """What the base writes on the evaluation's prompts, beside people."""
    temperature = config.load(ROOT / "params.yaml").evaluate.temperature
    metrics = measured()
    ours, human, size = (metrics[k] for k in ("base", "human", "size"))
    said = [
        f"{metric.label} {display.show(metric, ours[metric.key])}"
        f" (the human's {display.show(metric, human[metric.key])})"
        for metric in display.TABLE
        if metric.key in BASE_METRICS
    ]
    return (
        f"- On {size['prompts']} held-out prompts, {size['samples']} samples "
        f"each, at temperature {temperature}: {'; '.join(said)}."
    )


TEXTS: dict[str, Callable[[], str]] = {
    "lead": lead,
    "many": many,
    "questions": questions,
    "headline": headline,
    "results": results,
    "policy": policy,
    "seeds": seeds,
    "strict": strict,
    "arguments": arguments,
    "base": base,
    **{
        path.stem: partial(table, path.stem)
        for path in sorted(BENCHMARKS.glob("*.md"))
    },
}

if __name__ == "__main__":
    sys.exit(main())
