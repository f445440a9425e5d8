"""Write what a command can measure into the documents.

    make results    after `benchmarks/bench_run.py seed-N --set seed=N`

A document says what it wants: the text between the markers `<!-- NAME -->`
and `<!-- /NAME -->` is replaced by what TEXTS gives for NAME, from
metrics/evaluate.json and metrics/ppo.csv, from what benchmarks/bench_run.py
kept of whole runs, from what `stylerl evaluate` measured of their models on
more prompts (runs/prompts-SEED.json), from runs/h100.json, which a script
wrote that is not kept, or from the first table of benchmarks/results/NAME.md.

The table over seeds has means, and of differences a 95% interval of Student's
t over the seeds, which draw labels, SFT model and prompts anew.
"""

import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import t as student

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
)
MARKED = re.compile(
    r"<!-- (?P<name>[\w-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL
)
BENCHMARKS = ROOT / "benchmarks/results"
RUNS = BENCHMARKS / "runs"
STRICT = RUNS / "strict-0.json"  # by the stages' commands
BASE_METRICS = ("compliance", "parse_rate", "finished_rate", "length_median")
HEADLINE_METRICS = (
    "residual_compliance", "standardised_residual", "standardised_compliance",
    "non_compliance_cut", "skill", "joint", "used_arguments", "length_median",
)  # fmt: skip
MORE_METRICS = (  # over seeds, on the page of results
    "residual_cut", "compliance", "parse_rate", "finished_rate", "statements",
    "trivial_share", "resolved_names", "distinct_3", "repeated_lines", "ruff",
    "reformatted", "kl", "bits_per_byte",
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
    """What today's default gains over its seeds, and whom it does not beat."""
    runs, whole = seeds(), whole_runs()
    gain = pooled(runs)["gain"]
    words = {
        "residual_compliance": "after ruff's fixes and format",
        "standardised_residual": "after them at SFT's lengths",
        "standardised_compliance": "as written at SFT's lengths",
    }
    points = [
        f"{text} by {display.show_gain(display.metric_of(key), gain)}"
        for key, text in words.items()
    ]
    prompts, fewer = (
        sorted({run["size"]["prompts"] for run in each.values()})
        for each in (runs, whole)
    )
    samples = measured()["size"]["samples"]
    rivals = [
        run[summary.LINTER.format(samples)]["over_sft_standardised"]
        >= run["gain"]["standardised_compliance"]
        for run in whole.values()
    ]
    cut = display.show_gain(guards.CUT, gain).replace("+", "")
    both = [
        run["gain_best_of"]["residual_compliance_low"] > 0
        for run in whole.values()
    ]
    return (
        f"**Over {len(runs)} seeds, {', '.join(map(str, prompts))} held-out "
        "prompts each, PPO complies more often than SFT "
        f"{', '.join(points)} points (95% intervals over seeds). It cuts "
        f"non-compliance by {cut}%; the goal is {guards.CUT_GOAL:.0%}.** On "
        f"the runs' own {' or '.join(map(str, fewer))} prompts the best of "
        f"{samples} of "
        "SFT's samples by the linter gains as much or more at SFT's lengths "
        f"in {sum(rivals)} of {len(rivals)} runs; with the best of {samples} "
        f"on both sides PPO's lead after the fixer is clear in {sum(both)}. "
        "HumanEval is "
        f"finished clearly less often in {lost_skill(runs)}."
    )


def whole_runs() -> dict[str, Any]:
    """What whole runs of today's default measured, by their seeds."""
    return {
        f"seed {path.stem.removeprefix('seed-')}": storage.read_json(path)[
            "evaluate"
        ]
        for path in sorted(RUNS.glob("seed-[0-9].json"))
    }


def seeds() -> dict[str, Any]:
    """What each seed's models measured on many prompts, by their seeds.

    HumanEval, the base and bits per byte are those of the whole run.
    """
    runs = whole_runs()
    for path in sorted(RUNS.glob("prompts-*.json")):
        seed = f"seed {path.stem.removeprefix('prompts-')}"
        run, many = runs[seed], storage.read_json(path)["evaluate"]
        parts = {
            name: run[name] | many[name] for name in ("sft", "ppo", "gain")
        }
        runs[seed] = (
            run | {"size": many["size"], "human": many["human"]} | parts
        )
    return runs


def pooled(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Means over runs, and an interval over them of each difference."""
    parts: dict[str, dict[str, float]] = {}
    for model in ("base", "sft", "ppo", "human", "gain"):
        values = [run[model] for run in runs.values()]
        parts[model] = {
            key: statistics.fmean(value[key] for value in values)
            for key in values[0]
            if all(isinstance(value.get(key), float | int) for value in values)
        }
    gains = [run["gain"] for run in runs.values()]
    quantile = student.ppf(0.975, len(gains) - 1)
    for key in [key for key in parts["gain"] if f"{key}_low" in parts["gain"]]:
        spread = statistics.stdev(gain[key] for gain in gains)
        half = quantile * spread / math.sqrt(len(gains))
        parts["gain"][f"{key}_low"] = parts["gain"][key] - half
        parts["gain"][f"{key}_high"] = parts["gain"][key] + half
    return parts


def headline() -> str:
    """What today's default gains over its seeds, and each of them."""
    return (
        "Means over seeds, with the differences' intervals over them; base "
        "and HumanEval are of the whole runs. Then each seed's difference, "
        "starred where its own interval, by paired bootstrap over prompts, "
        "leaves out zero; where there is none, SFT's value and PPO's. Seed "
        "0's run "
        "([on its own prompts](docs/results.md#the-default-run)): "
        f"{source()}.\n\n{over_seeds(HEADLINE_METRICS)}"
    )


def over_seeds(keys: Iterable[str]) -> str:
    """Means over seeds, and each seed's difference, as a table."""
    runs = seeds()
    mean = pooled(runs)
    rows = [["metric", "base", "SFT", "PPO", "PPO - SFT [95%]", *runs]]
    for metric in map(display.metric_of, keys):
        values = display.show_models(metric, mean)
        gain = display.show_gain(metric, mean["gain"])
        shown = [_of_seed(metric, run) for run in runs.values()]
        rows.append([metric.label, *values, gain, *shown])
    failed = [_failed(run) for run in runs.values()]
    rows.append(["missed or failed", *4 * ["–"], *failed])
    return summary.markdown_table(rows)


def _of_seed(metric: display.Metric, run: Mapping[str, Any]) -> str:
    """A seed's difference, with a star where it is clear; else both values."""
    gain = run["gain"]
    if metric.key not in gain:
        return _before_after(run, metric)
    clear = gain[f"{metric.key}_low"] > 0 or gain[f"{metric.key}_high"] < 0
    return display.show(metric, gain[metric.key], signed=True) + "*" * clear


def short_table(metrics: Mapping[str, Any]) -> str:
    """The first rows of a run's own table."""
    rows = [["metric", "base", "SFT", "PPO", "PPO - SFT [95%]"]]
    for metric in map(display.metric_of, HEADLINE_METRICS):
        values = display.show_models(metric, metrics)
        gain = display.show_gain(metric, metrics["gain"])
        rows.append([metric.label, *values, gain])
    return summary.markdown_table(rows)


def questions() -> str:
    """What tokens are charged for, and the sceptic's two questions."""
    h100 = storage.read_json(RUNS / "h100.json")
    runs = seeds()
    mean = pooled(runs)

    def less(key: str) -> str:
        metric = display.metric_of(key)
        return display.show_gain(metric, h100["less_last_token"])

    arguments = display.metric_of("used_arguments")
    authors = display.show(arguments, mean["human"][arguments.key])
    return (
        "- **Token-level credit.** flake8 names each violation's row and "
        "column; PPO charges it to the token that was sampled there, what is "
        "unused, too complex or does not parse, to the whole body. What that "
        "changes over [a reward on the last token]"
        "(docs/decisions/0017-credit.md#evidence), "
        f"{len(h100['by_seed'])} seeds on an H100, paid by the linter alone: "
        "as written at SFT's lengths "
        f"{less('standardised_compliance')} points, after the fixer "
        f"{less('residual_compliance')}, right and compliant "
        f"{less('joint')}; statements of a body {less('statements')}.\n"
        "- **Why not just run a formatter?** It was run, on every completion "
        "of every model: ruff's safe fixes and its format. What complies "
        f"after it: {_change(mean, 'residual_compliance')}. "
        f"{left_by_fixer(measured())}\n"
        "- **Did the model get worse at its job?** "
        f"**By HumanEval clearly in {lost_skill(runs)}.** Each writes the "
        "last line of HumanEval's solutions [in a sandbox]"
        "(docs/decisions/0038-skill.md), and their tests decide. Right: "
        f"{_change(mean, 'skill')}; right and compliant: "
        f"{_change(mean, 'joint')}. Arguments of their functions that "
        f"bodies read: {_change(mean, 'used_arguments')} (the authors read "
        f"{authors}%).\n"
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

    def of(model: Mapping[str, Any]) -> str:
        return display.show(residual, model[residual.key])

    return (
        f"Of what safe fixes leave, on seed 0 [most](metrics/rules.csv) is "
        f"{most}: {before:.1f} in 100 of SFT's, {after:.1f} of PPO's. "
        "Without PPO, on that run's prompts, the best of "
        f"{samples} by the linter and the fixer: "
        f"{of(rival)}% (SFT {of(metrics['sft'])}%, PPO "
        f"{of(metrics['ppo'])}%)."
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
        "- **A guide that a formatter cannot meet alone.** With [ruff's rules "
        "on unused arguments, likely bugs, returns and complexity]"
        "(examples/strict.toml), paid by these alone, seed 0: "
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


def lost_skill(runs: Mapping[str, Any]) -> str:
    """In how many runs PPO is clearly worse at HumanEval."""
    lost = [run["gain"]["skill_high"] < 0 for run in runs.values()]
    return f"{sum(lost)} of {len(lost)} runs"


def policy() -> str:
    """The policy of the last run: its scores, its judge and its guards."""
    metrics = measured()
    judge = storage.read_json(ROOT / "metrics/label.json")["judge"]
    learned = storage.read_json(ROOT / "metrics/sft.json")["snippets"]
    params = config.load(ROOT / "params.yaml")
    more = seeds().items()
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
            "([all of them](results.md)). On more prompts, missed or failed: "
            f"{'; '.join(f'{name} {_failed(run)}' for name, run in more)}.",
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


def table_of_runs() -> str:
    """What PPO did to SFT in whole runs, on their prompts, as a table."""
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
    prompts = size.get("base_prompts", size["prompts"])
    return (
        f"- On {prompts} held-out prompts, {size['samples']} samples "
        f"each, at temperature {temperature}: {'; '.join(said)}."
    )


TEXTS: dict[str, Callable[[], str]] = {
    "lead": lead,
    "questions": questions,
    "headline": headline,
    "more": partial(over_seeds, MORE_METRICS),
    "results": results,
    "policy": policy,
    "runs": table_of_runs,
    "strict": strict,
    "base": base,
    **{
        path.stem: partial(table, path.stem)
        for path in sorted(BENCHMARKS.glob("*.md"))
    },
}

if __name__ == "__main__":
    sys.exit(main())
