"""A model's card, README.md of its folder, from what its run measured.

Nothing in it is typed by hand but what such a model cannot do.  A model that
no run of this folder made and measured gets no scores, and the card says so.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from stylerl import config
from stylerl.config import Params
from stylerl.report import charts, summary, templates

TEMPLATE = Path(__file__).with_name("card.md.j2")


class Run(NamedTuple):
    """The metrics and files of the last run."""

    role: str  # base, sft or ppo
    metrics: Mapping[str, Any]  # metrics/evaluate.json
    updates: pd.DataFrame  # metrics/ppo.csv
    judge: str  # the judge's identity
    snippets: pd.DataFrame  # split, distribution and licence of each
    params: Params
    learned: int  # functions of SFT, of metrics/sft.json


def render(name: str, first: str, run: Run | None) -> str:
    """The card as Markdown.

    Args:
        name: of the model, as transformers is to load it.
        first: the token that begins a prompt.
        run: that made and measured it; None where none did.
    """
    context: dict[str, Any] = {"name": name, "first": repr(first), "run": run}
    if run:
        snippets = run.snippets
        settings = config.to_dict(run.params.judge)
        context |= {
            "evaluation": summary.markdown(run.metrics).rstrip(),
            "training": training(run.params, run.judge, run.learned),
            "alarms": alarms(run.updates),
            "judge": yaml.safe_dump(settings, sort_keys=False),
            "learnt": snippets[snippets["split"] == "train"],
        }
    return templates.load(TEMPLATE).render(context)


def training(params: Params, judge: str, learned: int) -> str:
    """How much SFT and PPO learned, and under which judge.

    SFT has `learned` functions; of prompts there may be fewer than are asked.
    """
    ppo = params.ppo
    return (
        f"SFT learned {learned:,} compliant functions. PPO ran "
        f"{ppo.updates} updates of {ppo.batch_size} episodes on at most "
        f"{len(ppo.prompt_texts) or ppo.prompts} prompts with the reward "
        f"{' + '.join(ppo.reward)}. The judge's identity is `{judge}`."
    )


def alarms(updates: pd.DataFrame) -> str:
    """In how many updates each alarm of PPO was raised, as a sentence."""
    updates_of = charts.find_alarms(updates)
    words = [f"{name} in {len(steps)}" for name, steps in updates_of.items()]
    return (
        f"Alarms during PPO's {len(updates)} updates: "
        f"{', '.join(words) or 'none'}."
    )
