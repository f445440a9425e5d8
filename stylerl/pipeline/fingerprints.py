"""Digests of what parameters name and dvc.yaml has no path for.

The file that `judge.config` names, the versions of flake8 and ruff (whichever
does not judge still fixes or checks) and of their plugins, the code of local
plugins, and the functions of the user's own that `ppo.reward` names.  The
stage `fingerprint` writes digests of them; the stages that use them depend on
what it wrote.

DVC cannot tell whether they have changed, so dvc.yaml calls the stage always
changed, and `dvc repro` runs it each time, in a second.  The flow asks
`changed` instead.
"""

from importlib import metadata
from pathlib import Path
from typing import Any

from stylerl import storage
from stylerl.config import Params
from stylerl.judge import Judge
from stylerl.pipeline import graph
from stylerl.reward.functions import load, source

STAGE = "fingerprint"
FOLDER = Path("artifacts/fingerprint")


def digests(params: Params) -> dict[str, dict[str, Any]]:
    """The content of each file of FOLDER.

    Raises:
        ConfigError: something that is named is not there.
    """
    reward = {}
    for name in params.ppo.reward:
        if ":" in name:
            load(name)
            if path := source(name):
                reward[name] = graph.digest(path)
    judge = Judge(params.judge)
    fixer = {name: metadata.version(name) for name in ("flake8", "ruff")}
    fixer["format"] = judge.ruff.format if judge.ruff else ""
    return {
        "judge.json": {"judge": judge.identity, "fixer": fixer},
        "reward.json": reward,
    }


def write(params: Params) -> None:
    """Write the digests to FOLDER."""
    for name, content in digests(params).items():
        storage.write_json(FOLDER / name, content)


def changed(params: Params) -> bool:
    """Whether FOLDER differs from `digests`, or is missing."""
    return any(
        not (FOLDER / name).is_file()
        or storage.read_json(FOLDER / name) != content
        for name, content in digests(params).items()
    )
