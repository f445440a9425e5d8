"""A policy that answers: prompts in, completions out.

MLflow loads the registered model through `_load_pyfunc` (its name for the
entrance of a loader module) and needs no pickle for it: the model is a
folder with safetensors and a copy of this library.  torch is loaded with
the first policy, since registering one needs none.
"""

import math
import threading
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd

from stylerl.errors import DataError, StylerlError

PARAMS: dict[str, Any] = {
    "temperature": 0.8,
    "max_new_tokens": 128,
    "seed": 0,
}
LONGEST = 2**20  # characters a request; more would keep all others waiting


class Policy:
    """A model folder with a `predict` as MLflow calls it."""

    def __init__(self, folder: Path) -> None:
        """Load the folder; raises ModelError where it is incomplete."""
        import torch

        from stylerl.lm import models

        self.tokenizer = models.load_tokenizer(folder)
        model: Any = models.load_causal_lm(folder, tokenizer=self.tokenizer)
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu")

    def predict(
        self, prompts: pd.DataFrame, params: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Complete each row's `prompt`.

        Args:
            prompts: a column `prompt`; the line end after it is left to
                the completion.
            params: temperature (0 takes the likeliest token),
                max_new_tokens and seed.  A registered model has the
                evaluation's as defaults, a folder those of PARAMS.

        Returns:
            `completion`, and `finished`: whether the model ended it itself.

        Raises:
            DataError: a prompt is no text, or a parameter is unknown or out
                of its bounds.
            ModelError: a prompt and its completion do not fit the model.
        """
        from stylerl.lm import sampling

        chosen = PARAMS | dict(params or {})
        _check(prompts, chosen)
        drawn = sampling.generate(
            self.model,
            self.tokenizer,
            [prompt.rstrip("\n") for prompt in prompts["prompt"]],
            **chosen,
        )
        return pd.DataFrame(
            {"completion": drawn.texts, "finished": drawn.finished}
        )


def _check(prompts: pd.DataFrame, chosen: Mapping[str, Any]) -> None:
    """Raise DataError for what no policy can answer."""
    columns = [*getattr(prompts, "columns", [type(prompts).__name__])]
    if columns != ["prompt"]:
        raise DataError(f"there must be one column, prompt; got {columns}")
    for prompt in prompts["prompt"]:
        if not _is_text(prompt) or not prompt.strip():
            raise DataError(f"a prompt must be a text; got {prompt!r:.80}")
    if (length := sum(map(len, prompts["prompt"]))) > LONGEST:
        raise DataError(
            f"the prompts of a request must have at most {LONGEST} "
            f"characters; got {length}: ask for fewer at once"
        )
    if unknown := sorted(map(str, chosen.keys() - PARAMS.keys())):
        raise DataError(
            f"params may hold {', '.join(PARAMS)}; got {', '.join(unknown)}"
        )
    heat, length = chosen["temperature"], chosen["max_new_tokens"]
    if not (
        _is_number(heat, Real)
        and 0 <= heat < math.inf
        and _is_number(length, Integral)
        and length >= 1
    ):
        raise DataError(
            "temperature must be at least 0 and max_new_tokens at least 1; "
            f"got {heat!r:.80}, {length!r:.80}"
        )
    seed = chosen["seed"]
    if not (_is_number(seed, Integral) and 0 <= seed < 2**32):
        raise DataError(f"seed must be from 0 to 4294967295; got {seed!r:.80}")


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    """Whether it is a string that can be written."""
    return (
        isinstance(value, str)
        and value == value.encode(errors="replace").decode()
    )


class _Served:
    """A policy under load: one request after the other.

    What no policy can answer gets status 400 and our message.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._turn = threading.Lock()

    def predict(
        self, prompts: pd.DataFrame, params: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """As `Policy.predict`."""
        from stylerl.pipeline import tracking

        try:
            with self._turn:
                return self.policy.predict(prompts, params)
        except StylerlError as error:
            raise tracking.refusal(str(error)) from None


def _load_pyfunc(folder: str) -> _Served:
    return _Served(Policy(Path(folder)))
