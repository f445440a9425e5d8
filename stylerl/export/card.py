"""A model's card, README.md of its folder, from what its run measured.

Nothing in it is typed by hand but what such a model cannot do.  A model that
no run of this folder made and measured gets no scores, and the card says so.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import yaml

from stylerl import config
from stylerl.config import Params
from stylerl.report import charts, summary

TAGS = """\
---
library_name: transformers
pipeline_tag: text-generation
license: other
license_name: those-of-the-training-data
tags: [code, python, style, stylerl]
---
"""
USE = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForCausalLM.from_pretrained("{name}")
text = {first!r} + "def add(a, b):\\n    return"
ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
print(tokenizer.decode(model.generate(ids, max_new_tokens=64)[0]))
```

The first token begins every document that it read."""
UNREAD = "- Do not run what it writes unread."
LIMITS = """\
- Style is rewarded, correctness is not. Whether the code still does its job
  was tested on HumanEval, in a sandbox, where one could be started.
- It knows one style guide, the judge's above; another needs another run.
- The linter can be pleased without better code. The guards bound the known
  ways, such as shorter bodies; they do not remove them.
- It reads and writes Python functions, and docstrings in English."""


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
    use = USE.format(name=name, first=first)
    parts = [f"# {name}", _summary(run), "## Use", use]
    if run:
        parts += ["## Measured", measured(run), "## Judge", _judge(run)]
        parts += ["## Data and licences", _data(run.snippets)]
    parts += ["## Limits", f"{UNREAD}\n{LIMITS}" if run else UNREAD]
    return TAGS + "\n" + "\n\n".join(parts) + "\n"


def measured(run: Run) -> str:
    """The run's evaluation and training, as Markdown."""
    return "\n\n".join(
        [
            summary.markdown(run.metrics).rstrip(),
            training(run.params, run.judge, run.learned),
            alarms(run.updates),
        ]
    )


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


def _summary(run: Run | None) -> str:
    if run is None:
        return (
            "A causal language model, written by `stylerl push`. It was not "
            "measured there: nothing is known of its data and its style."
        )
    stages = {
        "base": "before any fine-tuning",
        "sft": "fine-tuned on clean code (SFT)",
        "ppo": "fine-tuned on clean code (SFT), then trained with PPO "
        "against a style linter",
    }
    return (
        f"A code model, {stages[run.role]}, by stylerl from "
        f"`{run.params.sft.base}` with seed {run.params.seed}. In the table "
        f"below it is {run.role if run.role == 'base' else run.role.upper()}."
    )


def _judge(run: Run) -> str:
    settings = yaml.safe_dump(
        config.to_dict(run.params.judge), sort_keys=False
    )
    return (
        f"With `noqa` disabled; its identity is `{run.judge}`.\n\n"
        f"```yaml\n{settings}```"
    )


def _data(snippets: pd.DataFrame) -> str:
    """How much there was to learn from, and under which licences."""
    learnt = snippets[snippets["split"] == "train"]
    counts = learnt["licence"].value_counts()
    return "\n".join(
        [
            f"{len(learnt):,} functions of {learnt['distribution'].nunique()} "
            "distributions were there to learn from; those of the other "
            "splits were not. The licences are those that they declare, and "
            "the weights are derived from that text.",
            "",
            "| licence | functions |",
            "|---|---:|",
            *(
                f"| {str(name).replace('|', 'or')} | {n:,} |"
                for name, n in counts.items()
            ),
        ]
    )
