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
from stylerl.config import Params, paths
from stylerl.pipeline import graph, machine, process, stage_runs
from stylerl.report import page
from stylerl.report.summary import REPORT

LOCK = Path("requirements.lock")


def main() -> None:
    """Show what the other stages measured."""
    params = config.load()
    with stage_runs.stage_run("report", {"seed": params.seed}) as run:
        storage.write_text(REPORT, page.render(collect(params)))
        run.log_file(REPORT)
    print(f"Report: {REPORT}")


def collect(params: Params) -> page.Evidence:
    """Everything that the page shows."""
    completions = storage.read_table(paths.COMPLETIONS)
    chosen = config.to_dict(params)
    return page.Evidence(
        metrics=storage.read_json(paths.EVALUATION),
        rules=pd.read_csv(paths.RULES),
        completions=completions,
        updates=pd.read_csv(paths.UPDATES),
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
        **{
            f"model {name}": page.identify(folder)
            for name, folder in paths.models(params.sft.base).items()
        },
    }


if __name__ == "__main__":
    process.run_main(main)
