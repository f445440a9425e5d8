"""Where the stages leave what other modules read, as dvc.yaml declares it.

What one stage alone names stands in its own module.
"""

from pathlib import Path

FILTER = Path("artifacts/filter")
SNIPPETS = FILTER / "snippets.parquet"
FILES = FILTER / "files.parquet"
LABELS = Path("artifacts/label/labels.parquet")
BASE = Path("artifacts/base")  # what `sft.base` names by default
SFT = Path("artifacts/sft")
CLASSIFIER = Path("artifacts/reward/classifier")
PAIRWISE = Path("artifacts/reward/pairwise")
PPO = Path("artifacts/ppo")
UPDATES = Path("metrics/ppo.csv")
SKILL = Path("metrics/skill.json")
COMPLETIONS = Path("artifacts/evaluate/completions.parquet")
EVALUATION = Path("metrics/evaluate.json")
RULES = Path("metrics/rules.csv")


def models(base: str) -> dict[str, str]:
    """The folders of the models that are compared, from `sft.base` on."""
    return {"base": base, "sft": str(SFT), "ppo": str(PPO)}
