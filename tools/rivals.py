"""Other ways from one SFT model to a compliant one, as tables.

On test prompts, from what benchmarks/bench_baselines.py kept: all of seed 0,
and RAFT, which complies most, of more seeds.
"""

from collections.abc import Mapping
from typing import Any

from stylerl.errors import DataError
from stylerl.evaluation.display import metric_of, show, show_gain
from stylerl.evaluation.guards import STANDARDISED
from stylerl.report import summary
from tools.runs import failed_guards, kept_runs, pooled, starred, whole_runs

SEED = "seed 0"
TRAINED = {  # what the table calls them
    "seed": "PPO",
    "last-token": "PPO, reward on the last token",
    "classifier": "PPO, by the classifier",
    "pairwise": "PPO, by the pairwise model",
    "raft": "RAFT",
    "rloo": "TRL's RLOO",
    "grpo": "TRL's GRPO",
    "dpo": "DPO",
    "apo": "APO",
    "formatted": "SFT on formatted code",
}
DECODED = {  # SFT and PPO, at which temperature
    "seed": "the default",
    "cold": "0.2",
    "greedy": "0.01",
    "best4": "the default",
    "best16": "the default",
}
GAINS = (
    "standardised_residual", "standardised_compliance", "non_compliance_cut",
    "joint",
)  # fmt: skip
OWN = (
    "residual_compliance", "used_arguments", "ruff", "statements",
    "length_median", "kl",
)  # fmt: skip
BESIDE = (
    *GAINS, "skill", "residual_compliance", "used_arguments", "statements",
)  # fmt: skip


def trained() -> str:
    """SFT, PPO, and what else was trained."""
    heads = [metric_of(key).label for key in (*GAINS, *OWN)]
    rows = [["model", *heads, "minutes of training", "guards that failed"]]
    sft = _first("seed")["evaluate"]["sft"]
    rows.append(["SFT", *_cells({}, sft), "–", "–"])
    for kind, name in TRAINED.items():
        run = kept_runs(kind).get(SEED)
        if run is None:
            continue
        _check_sft(kind, SEED)
        metrics = run["evaluate"]
        # A whole run's seconds are not those of its PPO.
        seconds = None if kind == "seed" else run["seconds"]
        spent = "–" if seconds is None else f"{seconds / 60:.0f}"
        cells = _cells(metrics["gain"], metrics["ppo"])
        rows.append([name, *cells, spent, failed_guards(metrics)])
    return summary.markdown_table(rows)


def nearest() -> str:
    """PPO and RAFT over the seeds of both, and between them."""
    raft, ours = _both()
    between = {
        seed: {"gain": _less(run["gain"], raft[seed]["gain"])}
        for seed, run in ours.items()
    }
    means = [pooled(runs)["gain"] for runs in (ours, raft, between)]
    heads = ["PPO - SFT [95%]", "RAFT - SFT", "PPO - RAFT"]
    rows = [["metric", *heads, *(f"{seed}: PPO, RAFT" for seed in ours)]]
    for metric in map(metric_of, BESIDE):
        gains = (show_gain(metric, mean) for mean in means)
        each = (
            ", ".join(
                starred(metric, runs[seed]["gain"]) for runs in (ours, raft)
            )
            for seed in ours
        )
        rows.append([metric.label, *gains, *each])
    failed = [failed_guards(run) for run in raft.values()]
    rows.append(["guards that failed, RAFT", *["–"] * len(heads), *failed])
    return summary.markdown_table(rows)


def _less(
    first: Mapping[str, float], other: Mapping[str, float]
) -> dict[str, float]:
    """What one gained, less what the other did."""
    return {key: first[key] - other[key] for key in first.keys() & other}


def decoded() -> str:
    """SFT and PPO at other temperatures, and the linter's choice of more."""
    rows = [
        [
            "temperature",
            "samples",
            "prompts",
            "SFT, after the fixer %",
            "PPO",
            "the linter's choice of SFT's",
            "of PPO's",
            "as written, at SFT's lengths: PPO over SFT",
            "the choice of SFT's over SFT",
            "the choice of PPO's over that of SFT's",
        ]
    ]
    residual = metric_of("residual_compliance")
    for kind, temperature in DECODED.items():
        run = kept_runs(kind).get(SEED)
        if run is None:
            continue
        metrics = run["evaluate"]
        samples, prompts = (metrics["size"][k] for k in ("samples", "prompts"))
        best, ours = (
            metrics.get(name.format(samples), {})
            for name in (summary.LINTER, summary.OURS)
        )
        models = (metrics["sft"], metrics["ppo"], best, ours)
        rows.append(
            [
                temperature,
                str(samples),
                str(prompts),
                *(show(residual, m.get(residual.key)) for m in models),
                show_gain(STANDARDISED, metrics["gain"]),
                show_gain(summary.OVER_SFT[1], best),
                show_gain(STANDARDISED, metrics.get("gain_best_of", {})),
            ]
        )
    return summary.markdown_table(rows)


def credit() -> str:
    """Token credit beside the same reward on the last token, in a sentence."""
    last, token = (
        _first(kind)["evaluate"]["gain"] for kind in ("last-token", "seed")
    )
    residual, used, joint = map(
        metric_of, ("standardised_residual", "used_arguments", "joint")
    )
    return (
        f"Under today's default, whose rate was chosen with token credit, on "
        f"{SEED}: after the fixer at SFT's lengths the last token gains "
        f"{show_gain(residual, last)}, token credit "
        f"{show_gain(residual, token)}; in arguments used "
        f"{show_gain(used, last)} and {show_gain(used, token)}; right and "
        f"compliant {show_gain(joint, last)} and {show_gain(joint, token)}"
    )


def picking() -> str:
    """What the linter's pick of more samples of SFT gains; a sentence."""
    runs = [_first(kind)["evaluate"] for kind in ("best4", "best16")]
    counts = [run["size"]["samples"] for run in runs]
    ours = [show_gain(STANDARDISED, run["gain"]) for run in runs]
    gains = [
        show_gain(summary.OVER_SFT[1], run[summary.LINTER.format(count)])
        for count, run in zip(counts, runs, strict=True)
    ]
    return (
        f"The pick of {' and '.join(map(str, counts))} gains "
        f"{' and '.join(gains)} there on {runs[0]['size']['prompts']} prompts "
        f"of {SEED} (PPO {' and '.join(ours)})"
    )


def choosing() -> str:
    """How RAFT, the trained rival that complies most, does; a sentence."""
    raft, ours = _both()
    means = [pooled(runs) for runs in (raft, ours)]
    complies, statements = (
        [show(metric_of(key), mean["ppo"][key]) for mean in means]
        for key in ("residual_compliance", "statements")
    )
    gained = metric_of("standardised_residual")
    there = [show_gain(gained, mean["gain"]) for mean in means]
    cut = metric_of("non_compliance_cut")
    cuts = [show(cut, mean["gain"][cut.key]) for mean in means]
    lost = [run["gain"]["skill_high"] < 0 for run in raft.values()]
    return (
        f"Over {len(raft)} seeds "
        "[RAFT](docs/results.md#rivals-from-the-same-sft-model), SFT on the "
        f"best of four by the reward, reaches {complies[0]}% after the fixer "
        f"(PPO there {complies[1]}%), a cut of {cuts[0]}% ({cuts[1]}%), by "
        f"bodies of {statements[0]} statements ({statements[1]}); at SFT's "
        f"lengths it gains {there[0]} ({there[1]}), and it clearly lost "
        f"skill on {sum(lost)} of {len(lost)}"
    )


def _both() -> tuple[dict[str, Any], dict[str, Any]]:
    """The evaluations of RAFT and PPO, by the seeds of both.

    Raises:
        DataError: a seed's two were not measured beside one SFT model.
    """
    raft, ours = whole_runs("raft"), whole_runs()
    seeds = sorted(raft.keys() & ours.keys())
    for seed in seeds:
        _check_sft("raft", seed)
    return {s: raft[s] for s in seeds}, {s: ours[s] for s in seeds}


def _first(kind: str) -> dict[str, Any]:
    """What was kept of the first seed.

    Raises:
        DataError: nothing was.
    """
    run: dict[str, Any] | None = kept_runs(kind).get(SEED)
    if run is None:
        raise DataError(
            f"no run of {kind} was kept for {SEED}: run "
            f"benchmarks/bench_baselines.py {kind}"
        )
    return run


def _check_sft(kind: str, seed: str) -> None:
    """Refuse a run that was not measured beside the seed's SFT model.

    Raises:
        DataError: it was not.
    """
    ours, other = (whole_runs(name)[seed]["sft"] for name in ("seed", kind))
    if ours != other:
        raise DataError(
            f"{kind} must be measured beside the SFT model of {seed}; it was "
            "beside another: run bench_baselines.py again"
        )


def _cells(gain: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """What a model gained over SFT, and its own values."""
    return [show_gain(metric_of(key), gain) for key in GAINS] + [
        show(metric_of(key), own[key]) for key in OWN
    ]
