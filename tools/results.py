"""Write what a command can measure into the documents.

    make results    after `benchmarks/bench_run.py seed-N --set seed=N`

A document says what it wants: the text between the markers `<!-- NAME -->`
and `<!-- /NAME -->` is replaced by what TEXTS gives for NAME, from the files
in metrics/, from what bench_run.py and bench_baselines.py of benchmarks/ kept,
from runs/h100.json, which a script wrote that is not kept, or from the first
table of benchmarks/results/NAME.md.

The table over seeds has means, and of differences a 95% interval of Student's
t over the seeds, which draw labels, SFT model and prompts anew.
"""

import math
import re
import sys
from collections import Counter
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
from tools import rivals
from tools.runs import (
    BEST,
    RUNS,
    checks,
    failures,
    kept_runs,
    longest,
    pooled,
    starred,
    whole_runs,
)

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
BASE_METRICS = ("compliance", "parse_rate", "finished_rate", "length_median")
HEADLINE_METRICS = (
    "residual_compliance", "standardised_residual", "standardised_compliance",
    "non_compliance_cut", "skill", "joint", "used_arguments", "length_median",
)  # fmt: skip
MORE_METRICS = (  # over seeds, on the page of results
    "residual_cut", "compliance", "parse_rate", "finished_rate", "statements",
    "idle_share", "resolved_names", "distinct_3", "repeated_lines", "ruff",
    "kl", "bits_per_byte", "skill_greedy", "skill_style",
)  # fmt: skip
SEEN = 1.0  # of a rule, in 100 completions of SFT or PPO, to be in the table
CREDIT_METRICS = (
    "residual_compliance", "standardised_residual", "standardised_compliance",
    "skill", "joint", "used_arguments", "length_median", "statements", "ruff",
)  # fmt: skip
STRICT_METRICS = (
    *HEADLINE_METRICS, "residual_violations", "skill_greedy",
    "skill_compliance",
)  # fmt: skip
GREEDY_METRICS = HEADLINE_METRICS[:3]


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
    """What the last run came to, in words, and its baselines."""
    metrics = measured()
    parts = [
        f"{source()}:",
        summary.bold_headline(metrics),
        summary.external_linters(metrics),
        summary.basis(metrics),
        summary.markdown_table(summary.baselines(metrics)),
        alarms(),
    ]
    return "\n\n".join(parts)


def rules() -> str:
    """What the fixer removes and what none does, by rule, on the last run."""
    found = pd.read_csv(ROOT / "metrics/rules.csv", index_col="rule")
    heads = {
        "sft": "SFT, as written", "sft_fixed": "SFT, after the fixer",
        "ppo": "PPO, as written", "ppo_fixed": "PPO, after the fixer",
    }  # fmt: skip
    counts = found[[*heads]]
    often = counts[counts.max(axis=1) >= SEEN]
    rows = [["in 100 completions", *heads.values()]]
    for rule, row in [*often.iterrows(), ("all rules", counts.sum())]:
        rows.append([str(rule), *(f"{count:.1f}" for count in row)])
    return summary.markdown_table(rows)


def lead() -> str:
    """What today's default gains over its seeds, and what speaks against."""
    runs, cold = whole_runs(), whole_runs("cold")
    mean, greedy = pooled(runs), pooled(whole_runs("greedy"))
    prompts = measured()["size"]["prompts"]
    cut = _points(mean, "non_compliance_cut").replace("+", "")
    leads = [
        run["gain_best_of"]["standardised_residual_low"] > 0
        for run in runs.values()
    ]
    return (
        "**After ruff has fixed and formatted what the models write, "
        f"{_shown(mean, 'ppo', 'residual_compliance')}% of PPO's completions "
        "comply with the guide, and "
        f"{_shown(mean, 'sft', 'residual_compliance')}% of SFT's (the base, "
        "fine-tuned on clean functions): "
        f"{_points(mean, 'residual_compliance')} points over {len(runs)} "
        f"seeds of {prompts} held-out prompts (95% intervals over seeds), "
        f"{_points(mean, 'residual_cut').replace('+', '')}% of what did not "
        "comply. "
        "Compared at SFT's lengths, so that shorter bodies earn nothing, the "
        f"gain is {_points(mean, 'standardised_residual')} after the fixer "
        f"and {_points(mean, 'standardised_compliance')} before it. "
        f"PPO is clearly worse at HumanEval on {lost_skill(runs)}.**\n\n"
        "What speaks against it: as written, non-compliance falls by "
        f"{cut}%, and the goal of {guards.CUT_GOAL:.0%} was missed on "
        f"{failing(runs, 'non-compliance cut')}; {other_failures(runs)}; "
        "by [rules that no reward has seen]"
        "(docs/metrics.md#linters-that-no-reward-has-seen) ruff finds "
        f"{_shown(mean, 'sft', 'ruff')} violations in 10 lines of SFT's and "
        f"{_shown(mean, 'ppo', 'ruff')} in PPO's; "
        "code that does nothing, such as `x = x`, is "
        f"in {_shown(mean, 'ppo', 'idle_share')}% of bodies "
        f"({_shown(mean, 'sft', 'idle_share')}% of SFT's, "
        f"{_shown(mean, 'human', 'idle_share')}% of the authors'). And "
        "without PPO the linter's pick of two samples of SFT reaches, at "
        "SFT's lengths, "
        f"{_shown(mean, BEST, 'standardised_residual')}% after the fixer "
        f"(PPO {_shown(mean, 'ppo', 'standardised_residual')}%) and "
        f"{_shown(mean, BEST, 'standardised_compliance')}% as written "
        f"({_shown(mean, 'ppo', 'standardised_compliance')}%), there as much "
        f"as PPO or more on {beaten(runs)}. {rivals.picking()}. "
        "Where the pick of two is taken on both sides, PPO leads clearly on "
        f"{sum(leads)} of {len(leads)} (after the fixer, at SFT's lengths); "
        "`stylerl complete` picks from two as well. But [decoded at 0.2]"
        "(docs/results.md#decoded-cold), as people would, PPO gains "
        f"{_points(pooled(cold), 'standardised_compliance')} points as "
        f"written, at SFT's lengths, over {len(cold)} seeds, and the pick "
        f"from two as much on {beaten(cold)}; but every guard held there on "
        f"{guarded(cold)}. Greedy it gains "
        f"{_points(greedy, 'standardised_compliance')} points over "
        f"{len(whole_runs('greedy'))} seeds. {rivals.choosing()}."
    )


def guarded(runs: Mapping[str, Any]) -> str:
    """On how many seeds every guard held."""
    held = [
        all(each.held for each in guards.guards(run)) for run in runs.values()
    ]
    return f"{sum(held) or 'none'} of {len(held)} seeds"


def failing(runs: Mapping[str, Any], name: str) -> str:
    """On how many seeds a goal was missed, or a guard failed.

    Raises:
        KeyError: there is no goal or guard of that name.
    """
    failed = [not checks(run)[name] for run in runs.values()]
    return f"{sum(failed) or 'none'} of {len(failed)} seeds"


def other_failures(runs: Mapping[str, Any]) -> str:
    """Which guards and goals failed besides the cut, on how many seeds."""
    failed = [
        [
            name
            for name, held in checks(run).items()
            if not held and name != "non-compliance cut"
        ]
        for run in runs.values()
    ]
    counts = Counter(name for names in failed for name in names)
    shown = (f"{name} on {count}" for name, count in counts.most_common())
    return (
        "every other [goal and guard](docs/metrics.md#guards) held on "
        f"{failed.count([])} of {len(runs)} seeds; failed: "
        f"{', '.join(shown) or 'none'}"
    )


def beaten(runs: Mapping[str, Any]) -> str:
    """On how many seeds SFT's best of n by the linter does as well as PPO."""
    as_well = [
        run[summary.LINTER.format(run["size"]["samples"])][
            "over_sft_standardised"
        ]
        >= run["gain"]["standardised_compliance"]
        for run in runs.values()
    ]
    return f"{sum(as_well) or 'none'} of {len(as_well)} seeds"


def headline() -> str:
    """What today's default gains over its seeds, and each of them."""
    return (
        "Means over seeds. Differences are over what both models have a value "
        "for, with intervals over seeds. The best of 2 is the linter's pick "
        "of a prompt's two samples. The last columns are each seed's "
        "difference, with a star where its own interval, by paired bootstrap "
        "over prompts, leaves out zero; where a row has no difference, SFT "
        "and PPO.\n\n"
        f"{over_seeds(HEADLINE_METRICS)}"
    )


def over_seeds(keys: Iterable[str], kind: str = "seed") -> str:
    """Means over seeds, and each seed's difference, as a table."""
    runs = whole_runs(kind)
    mean = pooled(runs)
    roles = [role for role in display.MODELS if role in mean]
    names = [display.MODELS[role] for role in roles]
    best = "SFT, best of 2"
    rows = [["metric", *names, best, "PPO - SFT [95%]", *runs]]
    for metric in map(display.metric_of, keys):
        if metric.key not in mean["ppo"] | mean["gain"]:
            continue  # HumanEval was not asked
        values = [display.show_own(metric, mean[role]) for role in roles]
        # Distinct-3 falls with the amount of text, and a pick has half of it.
        pick = {} if metric.key == "distinct_3" else mean.get(BEST, {})
        picked = display.show(metric, pick.get(metric.key))
        gain = display.show_gain(metric, mean["gain"])
        shown = [_of_seed(metric, run) for run in runs.values()]
        rows.append([metric.label, *values, picked, gain, *shown])
    failed = [failures(run) for run in runs.values()]
    blank = ["–"] * (len(roles) + 2)
    rows.append(["missed or failed", *blank, *failed])
    return summary.markdown_table(rows)


def _of_seed(metric: display.Metric, run: Mapping[str, Any]) -> str:
    """A seed's difference, with a star where it is clear; else both values."""
    if metric.key not in run["gain"]:
        return _before_after(run, metric)
    return starred(metric, run["gain"])


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
    less = {"gain": h100["less_last_token"]}
    runs = whole_runs()
    mean = pooled(runs)
    skill = mean["gain"]["skill_low"]
    worse = mean["ppo"]["bits_per_byte"] / mean["sft"]["bits_per_byte"] - 1
    return (
        "- **Token-level credit.** flake8 names each violation's row and "
        "column, and PPO charges it to the token that was sampled there; "
        "what is unused, too complex or cannot be parsed has no such token, "
        "and lowers the reward at the body's end. Against [a reward on the "
        "last token](docs/decisions/0017-credit.md#evidence) "
        f"({len(h100['by_seed'])} seeds on an H100, the linter as the only "
        "reward), compliance at SFT's lengths gains "
        f"{_points(less, 'standardised_compliance')} points, after the fixer "
        f"{_points(less, 'standardised_residual')}, right and compliant on "
        f"HumanEval {_points(less, 'joint')}. {rivals.credit()}.\n"
        "- **Why not just run a formatter?** We did, on every completion: "
        "ruff's safe fixes, then its format. They take SFT from "
        f"{_shown(mean, 'sft', 'compliance')} to "
        f"{_shown(mean, 'sft', 'residual_compliance')}%, PPO from "
        f"{_shown(mean, 'ppo', 'compliance')} to "
        f"{_shown(mean, 'ppo', 'residual_compliance')}%; the authors' own "
        "bodies reach "
        f"{_shown(mean, 'human', 'residual_compliance')}%, "
        f"{_shown(mean, 'human', 'standardised_residual')}% at SFT's lengths "
        f"(PPO {_shown(mean, 'ppo', 'standardised_residual')}%). A formatter "
        "cannot supply a missing name or mend what does not parse. "
        f"{left_by_fixer(measured())}\n"
        "- **Did the model get worse at its job?** On HumanEval clearly on "
        f"**{lost_skill(runs)}**. The last lines of its solutions, rewritten "
        "and [tested in a sandbox](docs/decisions/0038-skill.md), are right: "
        f"{_change(mean, 'skill')}; right and compliant: "
        f"{_change(mean, 'joint')}. A loss of {-100 * min(skill, 0):.1f} "
        f"points is not excluded. PPO predicts human code {worse:.1%} worse "
        f"(bits per byte; a guard allows {guards.FORGETTING_LIMIT:.0%}). "
        "The share of their functions' arguments that bodies use is "
        f"{_change(mean, 'used_arguments')}, the authors' "
        f"{_shown(mean, 'human', 'used_arguments')}%.\n"
        f"{shorter(runs)}\n{stricter()}"
    )


def shorter(runs: Mapping[str, Any]) -> str:
    """What happened to the lengths of bodies, as a point of the README."""
    mean = pooled(runs)
    length, statements = (
        " to ".join(_shown(mean, model, key) for model in ("sft", "ppo"))
        for key in ("length_median", "statements")
    )
    clear = [
        run["gain"]["standardised_compliance_low"] > 0 for run in runs.values()
    ]
    return (
        "- **Is it only shorter?** Each batch of PPO [sets a price on length]"
        "(docs/decisions/0035-prices.md), to keep it as it is: over seeds the "
        f"median goes from {length} tokens, statements from {statements} a "
        f"body. A guard allows {guards.SIZE_LIMIT:.0%} either way: it failed "
        f"for the median on {failing(runs, 'median length')}, for statements "
        f"on {failing(runs, 'statements')}. At SFT's lengths the gain is "
        f"clear on {sum(clear)} of {len(clear)}."
    )


def left_by_fixer(metrics: Mapping[str, Any]) -> str:
    """What the fixer leaves, by its first rule, and how a rival does there."""
    rules = pd.read_csv(ROOT / "metrics/rules.csv", index_col="rule")
    most = rules["sft_fixed"].idxmax()
    before, after = rules.loc[most, ["sft_fixed", "ppo_fixed"]]
    samples, prompts = (metrics["size"][key] for key in ("samples", "prompts"))
    rival = summary.LINTER.format(samples)
    best, sft, ppo = (
        _shown(metrics, model, "residual_compliance")
        for model in (rival, "sft", "ppo")
    )
    return (
        f"What it leaves [most](metrics/rules.csv) on seed 0 is {most}: "
        f"{before:.1f} in 100 completions of SFT, {after:.1f} of PPO. The "
        f"rival is to take {samples} samples of SFT, keep the one that the "
        f"linter prefers, and fix that: {best}% on that run's {prompts} "
        f"prompts (one sample of SFT {sft}%, of PPO {ppo}%)."
    )


def stricter() -> str:
    """The runs under examples/strict.toml, as a point of the README."""
    runs = whole_runs("strict")
    mean = pooled(runs)
    clear = [
        run["gain"]["standardised_residual_low"] > 0 for run in runs.values()
    ]
    residual = display.metric_of("residual_compliance")
    gained = display.gain_sign(residual, mean["gain"]) > 0
    return (
        "- **A guide that a formatter cannot meet alone**, [ruff's rules on "
        "unused arguments, likely bugs, returns and complexity]"
        "(examples/strict.toml) in flake8's place: "
        f"{'a' if gained else 'no'} clear gain over {len(runs)} seeds. "
        "What complies after the fixer: "
        f"{_change(mean, 'residual_compliance')}, at SFT's lengths "
        f"{_points(mean, 'standardised_residual')}, clear on {sum(clear)} of "
        f"{len(clear)}; right and compliant on HumanEval "
        f"{_points(mean, 'joint')}. The best of two by the linter gains as "
        f"much or more at SFT's lengths on {beaten(runs)}; the goal of a cut "
        f"was missed on {failing(runs, 'non-compliance cut')}, and greedy, "
        f"HumanEval is clearly lost on {lost_skill(runs, 'skill_greedy')}. "
        "[All of it](docs/results.md#a-strict-guide)."
    )


def others(kind: str, keys: Iterable[str] = HEADLINE_METRICS) -> str:
    """What runs of another kind than the default measured, over seeds."""
    made = sorted(
        {
            f"{run['commit']}, {run['machine']}"
            for run in kept_runs(kind).values()
        }
    )
    table = over_seeds(keys, kind)
    return f"At {'; '.join(made)}.\n\n{table}"


def _change(metrics: Mapping[str, Any], key: str) -> str:
    """SFT's value, PPO's, and the difference with its interval."""
    before, after = (_shown(metrics, model, key) for model in ("sft", "ppo"))
    points = _points(metrics, key)
    return f"{before}% for SFT, {after}% for PPO ({points} points)"


def _shown(metrics: Mapping[str, Any], model: str, key: str) -> str:
    """A model's value, without its unit."""
    return display.show(display.metric_of(key), metrics[model][key])


def _points(metrics: Mapping[str, Any], key: str) -> str:
    """What PPO changed, with its interval, in points."""
    return display.show_gain(display.metric_of(key), metrics["gain"])


def cost() -> str:
    """What a whole run takes, as one line."""
    run, runs = longest(), kept_runs().values()
    memory = math.ceil(max(run["largest_process_gib"] for run in runs))
    return (
        "Linux, Python 3.11, git, make, two cores and "
        f"{memory} GiB of memory are enough; a run took "
        f"{math.ceil(run['seconds'] / 60)} minutes of two cores with bf16 "
        f"({run['machine'].split(',')[0]}), and takes about twice as long "
        "without."
    )


def aims() -> str:
    """What was aimed at besides the goals of a run, and what came of it."""
    mean = pooled(whole_runs())
    sft, human = mean["sft"], mean["human"]
    reward = storage.read_json(ROOT / "metrics/reward.json")
    aimed = (  # what, value, goal
        ("minutes of a run", math.ceil(longest()["seconds"] / 60), 25),
        ("% that parse after SFT", 100 * sft["parse_rate"], 97),
        ("% of names that resolve after SFT", 100 * sft["resolved_names"], 95),
        (
            "median length after SFT, % of the authors'",
            100 * sft["length_median"] / human["length_median"],
            80,
        ),
        (
            "AUROC of the classifier, seed 0, in % (PPO is not paid by it)",
            100 * reward["classifier"]["auroc"],
            95,
        ),
    )
    return "What else was aimed at, and what came of it: " + "; ".join(
        f"{what} {goal} ({value:.0f})" for what, value, goal in aimed
    )


def lost_skill(runs: Mapping[str, Any], key: str = "skill") -> str:
    """On how many seeds PPO is clearly worse at HumanEval."""
    lost = [run["gain"][f"{key}_high"] < 0 for run in runs.values()]
    return f"{sum(lost) or 'none'} of {len(lost)} seeds"


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
            card.training(params, judge, learned),
            "",
            *(
                each.markdown
                for each in (*guards.goals(metrics), *guards.guards(metrics))
                if not each.held
            ),
            "",
            "No other goal was missed, and no other guard failed "
            "([all of them](metrics.md#guards)); on other seeds "
            "[the table says which](results.md#over-seeds).",
            "",
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
            f"in a clean clone {run['seconds'] / 60:.1f} minutes, the largest "
            f"process {run['largest_process_gib']} GiB"
        )
    return (
        f"`preset: {params.preset}`, `{run['command']}` at {run['commit']} "
        f"on {run['date']}, {run['machine']}: {cost}"
    )


def alarms() -> str:
    """In how many updates each alarm of PPO was raised, as a sentence."""
    return card.alarms(pd.read_csv(ROOT / "metrics/ppo.csv"))


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


def on_h100() -> str:
    """The main rows of what the credit's benchmark found."""
    heads, line, *rows = table("credit").splitlines()
    by_label = {row.split("|")[1].strip(): row for row in rows}
    labels = [display.metric_of(key).label for key in CREDIT_METRICS]
    return "\n".join([heads, line, *(by_label[label] for label in labels)])


def base() -> str:
    """What the base writes on the evaluation's prompts, beside people."""
    temperature = config.load(ROOT / "params.yaml").evaluate.temperature
    metrics = measured()
    ours, human, size = (metrics[k] for k in ("base", "human", "size"))
    said = [
        f"{metric.label} {display.show(metric, ours[metric.key])}"
        f" (the authors' {display.show(metric, human[metric.key])})"
        for metric in display.TABLE
        if metric.key in BASE_METRICS
    ]
    prompts = size.get("base_prompts", size["prompts"])
    return (
        f"- On {prompts} held-out prompts, {size['samples']} samples each, at "
        f"temperature {temperature} (the authors' own bodies are of "
        f"{human['prompts']:g}): {'; '.join(said)}."
    )


TEXTS: dict[str, Callable[[], str]] = {
    "lead": lead,
    "cost": cost,
    "questions": questions,
    "headline": headline,
    "more": partial(over_seeds, MORE_METRICS),
    "results": results,
    "rules": rules,
    "policy": policy,
    "aims": aims,
    "strict": partial(others, "strict", STRICT_METRICS),
    "cold": partial(others, "cold"),
    "greedy": partial(others, "greedy", GREEDY_METRICS),
    "base": base,
    "rivals": rivals.trained,
    "nearest": rivals.nearest,
    "decoded": rivals.decoded,
    **{
        path.stem: partial(table, path.stem)
        for path in sorted(BENCHMARKS.glob("*.md"))
    },
    "credit": on_h100,
}

if __name__ == "__main__":
    sys.exit(main())
