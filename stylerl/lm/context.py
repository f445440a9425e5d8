"""What a model is given before a prompt: the start of the file around it.

A prompt is a signature, and its docstring if it has one; what its body may
call stands above it: imports, the class, other functions.  An editor sends
that too.  So many tokens of it are given as the model has learnt with, which
its config.json says (`context`): whole lines, the nearest ones.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.lm.encoding import encode_code, encode_prompt


@dataclass(frozen=True)
class PromptEncoder:
    """From a prompt to token ids, those of its context first.

    Each part is tokenised alone, so that a prompt has the same tokens in
    any file.
    """

    tokenizer: PreTrainedTokenizerBase
    budget: int = 0  # tokens of context, at most
    above: Mapping[str, str] = field(default_factory=dict)  # by prompt

    def __call__(self, prompt: str) -> list[int]:
        """Token ids: the document's first, context, prompt."""
        above = self.above.get(prompt, "")
        context = nearest_lines(self.tokenizer, above, self.budget)
        return encode_prompt(self.tokenizer, prompt, context)


def nearest_lines(
    tokenizer: PreTrainedTokenizerBase, above: str, budget: int
) -> list[int]:
    """Token ids of the last lines of a text that fit; none may."""
    # A line break and the indentation after it may be one token: together,
    # lines have about as many tokens as alone, and no more as a rule.
    nearest: list[str] = []
    room = budget
    for line in re.findall(r"[^\n]*\n|[^\n]+", above)[::-1]:
        room -= len(encode_code(tokenizer, line))
        if room < 0:
            break
        nearest.insert(0, line)
    ids = encode_code(tokenizer, "".join(nearest))
    while len(ids) > budget:
        del nearest[0]
        ids = encode_code(tokenizer, "".join(nearest))
    return ids


def tag_with_context(model: PreTrainedModel, budget: int) -> None:
    """Record how much context a model has learnt with."""
    model.config.context = budget


def context_of(model: PreTrainedModel) -> int:
    """How much context a model has learnt with, in tokens."""
    return int(getattr(model.config, "context", 0))
