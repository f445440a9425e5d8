"""A policy that answers: prompts in, completions out.

MLflow loads the registered model through `_load_pyfunc` (its name for the
entrance of a loader module) and needs no pickle for it: the model is a
folder with safetensors and a copy of this library.  torch is loaded with
the first policy, since registering one needs none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stylerl.errors import DataError

PARAMS: dict[str, Any] = {
    "temperature": 0.8,
    "max_new_tokens": 128,
    "stop_strings": [],
    "seed": 0,
}


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
                max_new_tokens, stop_strings (texts that end a completion)
                and seed.  A registered model has the evaluation's as
                defaults, a folder those of PARAMS.

        Returns:
            `completion`, and `finished`: whether the model ended it itself.

        Raises:
            DataError: a parameter is out of its bounds.
            ModelError: a prompt and its completion do not fit the model.
        """
        from stylerl.lm import sampling

        chosen = PARAMS | dict(params or {})
        if chosen["temperature"] < 0 or chosen["max_new_tokens"] < 1:
            raise DataError(
                "temperature must be at least 0 and max_new_tokens at least "
                f"1; got {chosen['temperature']}, {chosen['max_new_tokens']}"
            )
        if "" in chosen["stop_strings"]:
            raise DataError("stop_strings must not be empty texts; remove ''")
        drawn = sampling.generate(
            self.model,
            self.tokenizer,
            [str(prompt).rstrip("\n") for prompt in prompts["prompt"]],
            **chosen,
        )
        return pd.DataFrame(
            {"completion": drawn.texts, "finished": drawn.finished}
        )


def _load_pyfunc(folder: str) -> Policy:
    return Policy(Path(folder))
