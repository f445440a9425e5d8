"""Other ways from one SFT model to a compliant one, as tables.

Of seed 0 and on its test prompts, from what benchmarks/bench_baselines.py
kept.
"""

from collections.abc import Mapping
from typing import Any

from stylerl.evaluation.display import metric_of, show, show_gain
from stylerl.evaluation.guards import STANDARDISED
from stylerl.report import summary
from tools.runs import failures, kept_runs

SEED = "seed 0"
TRAINED = {  # from SFT, and what the table calls them
    "seed": "PPO",
    "last-token": "PPO, reward on the last token",
    "classifier": "PPO, by the classifier",
    "pairwise": "PPO, by the pairwise model",
    "raft": "RAFT",
    "rloo": "TRL's RLOO",
    "grpo": "TRL's GRPO",
    "dpo": "DPO",
    "apo": "APO",
}
DECODED = {  # SFT and PPO, at which temperature
    "seed": "0.6",
    "cold": "0.2",
    "greedy": "greedy",
    "best4": "0.6",
    "best16": "0.6",
}
GAINS = (
    "standardised_residual", "standardised_compliance", "non_compliance_cut",
    "joint",
)  # fmt: skip
OWN = (
    "residual_compliance", "used_arguments", "statements", "length_median",
    "kl",
)  # fmt: skip


def trained() -> str:
    """SFT, PPO, and what else was trained from SFT."""
    gains, own = map(metric_of, GAINS), map(metric_of, OWN)
    heads = [f"{metric.label}: less SFT" for metric in gains]
    heads += [metric.label for metric in own]
    rows = [["", *heads, "minutes of training", "missed or failed"]]
    for kind, name in TRAINED.items():
        run = kept_runs(kind).get(SEED)
        if run is None:
            continue
        metrics = run["evaluate"]
        if len(rows) == 1:
            rows.append(["SFT", *_cells({}, metrics["sft"]), "–", "–"])
        # A whole run's seconds are not those of its PPO.
        seconds = None if kind == "seed" else run["seconds"]
        spent = "–" if seconds is None else f"{seconds / 60:.0f}"
        cells = _cells(metrics["gain"], metrics["ppo"])
        rows.append([name, *cells, spent, failures(metrics)])
    return summary.markdown_table(rows)


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
            "at SFT's lengths: PPO over SFT",
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
        best = summary.LINTER.format(samples)
        ours = summary.OURS.format(samples)
        values = (metrics[m][residual.key] for m in ("sft", "ppo", best, ours))
        rows.append(
            [
                temperature,
                str(samples),
                str(prompts),
                *(show(residual, value) for value in values),
                show_gain(STANDARDISED, metrics["gain"]),
                show_gain(summary.OVER_SFT[1], metrics[best]),
                show_gain(STANDARDISED, metrics["gain_best_of"]),
            ]
        )
    return summary.markdown_table(rows)


def credit() -> str:
    """Token credit beside the same reward on the last token, in a sentence."""
    residual = metric_of("standardised_residual")
    last, token = (
        show_gain(residual, kept_runs(kind)[SEED]["evaluate"]["gain"])
        for kind in ("last-token", "seed")
    )
    return (
        f"Under today's default, on {SEED}, the last token gains {last} after "
        f"the fixer at SFT's lengths, token credit {token}"
    )


def choosing() -> str:
    """How RAFT, the trained rival that comes nearest, does; a sentence."""
    raft, ours = (
        kept_runs(kind)[SEED]["evaluate"]["ppo"] for kind in ("raft", "seed")
    )
    complies, statements = (
        [show(metric_of(key), model[key]) for model in (raft, ours)]
        for key in ("residual_compliance", "statements")
    )
    return (
        f"On {SEED} [RAFT](docs/results.md#rivals-from-the-same-sft-model), "
        "which trains on the linter's choice of four, complies in "
        f"{complies[0]}% (PPO {complies[1]}) after the fixer, with bodies of "
        f"{statements[0]} statements ({statements[1]})"
    )


def _cells(gain: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """What a model gained over SFT, and its own values."""
    return [show_gain(metric_of(key), gain) for key in GAINS] + [
        show(metric_of(key), own[key]) for key in OWN
    ]
