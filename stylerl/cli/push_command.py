"""`stylerl push`: a model, with a card from the run that made it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from stylerl import storage
from stylerl.config import paths
from stylerl.errors import StylerlError
from stylerl.export import card, hub
from stylerl.pipeline import workspace

JUDGE = Path("metrics/label.json")
SFT = Path("metrics/sft.json")
ORIGIN = ["split", "distribution", "licence"]


def run(folder: Path, target: str, public: bool) -> str:
    """Push a model; where it is then.

    Raises:
        ModelError: the folder holds no model.
        StylerlError: its run was not evaluated, or the target is refused.
    """
    from stylerl.lm.encoding import load_tokenizer

    hub.model_files(folder)
    tokenizer = load_tokenizer(folder)
    first = tokenizer.bos_token or tokenizer.eos_token
    name = target
    if hub.is_folder(target):
        name = Path(target).resolve().name
    text = card.render(name, first, evidence(folder))
    return hub.push(folder, text, target, public)


def evidence(folder: Path) -> card.Run | None:
    """The last run's evidence on a model; None for a model of another run.

    Raises:
        StylerlError: it is the run's, and not evaluated as it is now.
    """
    role = {
        Path(path).resolve(): name
        for name, path in paths.models(workspace.settings().sft.base).items()
    }.get(folder.resolve())
    if not role or not Path("dvc.yaml").exists():
        return None
    tracked = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json", "ppo", "evaluate"],
        capture_output=True,
        text=True,
    )
    if tracked.returncode or tracked.stdout.strip() != "{}":
        raise StylerlError(
            f"a card has the scores of its run; DVC says that those in "
            f"metrics/ are not of {folder} as it is: run `stylerl run`, or "
            "push a copy of the folder, without scores"
        )
    return card.Run(
        role=role,
        metrics=storage.read_json(paths.EVALUATION),
        updates=pd.read_csv(paths.UPDATES),
        judge=storage.read_json(JUDGE)["judge"],
        snippets=pd.read_parquet(paths.SNIPPETS, columns=ORIGIN),
        params=workspace.settings(),
        learned=storage.read_json(SFT)["snippets"],
    )
