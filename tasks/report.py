"""Stage `report`: tables and metrics -> artifacts/report/report.html.

It samples and judges nothing, so another template, or another chart, costs
seconds.  The page's last section says where, when committed and in what time
its metrics were made, so it differs from one execution to the next; no stage
reads it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from stylerl import config, storage
from stylerl.config import Params
from stylerl.pipeline import graph, machine, process, stage_runs
from stylerl.report import page

LOCK = Path("requirements.lock")
SFT = Path("artifacts/sft")
PPO = Path("artifacts/ppo")
UPDATES = Path("metrics/ppo.csv")
COMPLETIONS = Path("artifacts/evaluate/completions.parquet")
METRICS = Path("metrics/evaluate.json")
RULES = Path("metrics/rules.csv")
REPORT = Path("artifacts/report/report.html")


def main() -> None:
    """Show what the other stages measured."""
    params = config.load()
    with stage_runs.stage_run("report", {"seed": params.seed}) as run:
        storage.write_text(REPORT, page.render(collect(params)))
        run.log_file(REPORT)
    print(f"Report: {REPORT}")


def collect(params: Params) -> page.Evidence:
    """Everything that the page shows."""
    completions = storage.read_table(COMPLETIONS)
    chosen = config.to_dict(params)
    return page.Evidence(
        metrics=storage.read_json(METRICS),
        rules=pd.read_csv(RULES),
        completions=completions,
        updates=_read_csv(UPDATES),
        provenance={
            **_provenance(completions.attrs, params),
            **machine.describe(),
        },
        seconds=stage_runs.seconds_by_stage(),
        params=yaml.safe_dump(chosen, sort_keys=False),
        seed=params.seed,
    )


def _provenance(basis: Mapping[Any, Any], params: Params) -> dict[str, str]:
    """The digests of data, judge and models."""
    raw = graph.inputs(graph.find_stage("filter"))
    return {
        "data, MD5 by DVC": raw["data"] or "none",
        "snippets, SHA-256": basis["snippets"],
        "judge": basis["judge"],
        "lock, SHA-256": storage.digest(LOCK) if LOCK.exists() else "none",
        "seed": str(params.seed),
        "model base": page.identify(params.sft.base),
        "model sft": page.identify(str(SFT)),
        "model ppo": page.identify(str(PPO)),
    }


def _read_csv(path: Path) -> pd.DataFrame | None:
    """A table, or None where a stage wrote none or an empty one."""
    try:
        return pd.read_csv(path)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return None


if __name__ == "__main__":
    process.run_main(main)
