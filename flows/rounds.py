"""An iterated run: what the policy wrote teaches the next reward model.

    stylerl run --rounds 2 --set "ppo.reward={classifier: 1}"

The first round is the flow as it is.  Each further one keeps the completions
of the policy that PPO has just made in rounds/N.jsonl, lets the reward models
learn from them too, as the judge labels them (reward.rollouts), and runs
PPO again, from SFT, against what they have become.  Every round is a run of
the flow with its own metrics, and passes the gate to be champion.  params.yaml
then names the last round's file, so `dvc repro` agrees; to go back is a
change of one value.
"""

from pathlib import Path
from typing import Any

from prefect import flow

from flows.rlhf import rlhf
from stylerl import storage
from stylerl.config import RewardConfig
from stylerl.pipeline import preflight

WRITTEN = Path("artifacts/ppo/rollouts.jsonl")
FOLDER = Path("rounds")


@flow(name="rounds", persist_result=False)
def iterate(
    rounds: int = 2,
    preset: str | None = None,
    params: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the flow `rounds` times; the metrics of the last round.

    Args:
        rounds: at least 1.
        preset: as in `rlhf`.
        params: as in `rlhf`, the same in every round.

    Raises:
        ConfigError: there is nothing to iterate.
        StylerlError: as `rlhf`.
    """
    preflight.check_rounds(rounds, preset, params)
    start = {"reward.rollouts": RewardConfig.rollouts}
    metrics = rlhf(preset, {**start, **(params or {})})
    for number in range(1, rounds):
        kept = FOLDER / f"{number}.jsonl"
        storage.write_text(kept, WRITTEN.read_text(encoding="utf-8"))
        metrics = rlhf(None, {"reward.rollouts": str(kept)})
    return metrics
