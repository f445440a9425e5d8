"""Fill-in-the-middle: code before and after a cursor, and what stands at it.

A body is cut at two places into three, and asked for in the order prefix,
suffix, middle (PSM; Bavarian et al., arXiv 2207.14255, section 3):

    <PRE> prompt + body[:i] <SUF> body[j:] <MID> body[i:j] <eos>

The places are characters, drawn uniformly, so that a cursor may stand inside
a word.  Departures from the paper: the prompt is never cut, the middle is
never empty, and only the middle and its eos have a loss, where the paper's
models learn all three parts: SFT learns answers alone, here as elsewhere.
"""

import random
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from stylerl.errors import ModelError

SPACED = "\n    x  \n"  # must come through between two of the tokens


class Tokens(NamedTuple):
    """The three that stand before the parts, as they are written."""

    prefix: str
    suffix: str
    middle: str


KNOWN = (
    # Qwen2.5-Coder, CodeGemma; and what a tokenizer without any is given.
    Tokens("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    # StarCoder, StarCoder2, Granite.
    Tokens("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    # Code Llama.
    Tokens("▁<PRE>", "▁<SUF>", "▁<MID>"),
    # DeepSeek-Coder.
    Tokens("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)


def find(tokenizer: PreTrainedTokenizerBase) -> Tokens | None:
    """The tokens of a tokenizer that has all three, or None.

    Raises:
        ModelError: it takes the white space beside them away.
    """
    vocabulary = tokenizer.get_vocab()
    for tokens in KNOWN:
        marks = [_encode(tokenizer, token) for token in tokens]
        if marks != [[vocabulary.get(token)] for token in tokens]:
            continue
        (prefix,), (suffix,), (middle,) = marks
        whole = _encode(tokenizer, SPACED.join(tokens))
        code = whole[1 : whole.index(suffix)]
        text = tokenizer.decode(code, clean_up_tokenization_spaces=False)
        intact = [prefix, *code, suffix, *code, middle]
        if whole != intact or text != SPACED:
            raise ModelError(
                f"{', '.join(tokens)} must leave the white space beside them "
                "to the code; this tokenizer takes it away: set lstrip and "
                "rstrip of the three to false in its tokenizer.json"
            )
        return tokens
    return None


def usable(tokenizer: PreTrainedTokenizerBase) -> Tokens | None:
    """The tokens to ask with; None where `find` finds or allows none."""
    try:
        return find(tokenizer)
    except ModelError:
        return None


def find_or_add(tokenizer: PreTrainedTokenizerBase) -> Tokens:
    """The tokens of a tokenizer; one that has none gets the first of KNOWN.

    Raises:
        ModelError: as `find`.
    """
    found = find(tokenizer)
    if found is None:
        found = KNOWN[0]
        tokenizer.add_special_tokens(
            {"extra_special_tokens": [*found]},
            replace_extra_special_tokens=False,
        )
    return found


def ask(tokens: Tokens, prefix: str, suffix: str) -> str:
    """The prompt whose completion stands between two texts.

    Raises:
        ModelError: a text holds one of the tokens, which would move the
            cursor.
    """
    for token in tokens:
        if token in prefix + suffix:
            raise ModelError(
                f"code to fill in must not hold {token}, which marks the "
                "cursor: remove it"
            )
    before, after, at = tokens
    return before + prefix + after + suffix + at


def infill(
    tokens: Tokens, prompt: str, body: str, rng: random.Random
) -> tuple[str, str]:
    """What is asked, and the middle to answer, of a body cut at random.

    Args:
        tokens: of the tokenizer; the texts hold none of them.
        prompt: what is never cut.
        body: one character or more.
        rng: draws two different places of the body, its ends among them.
    """
    i, j = sorted(rng.sample(range(len(body) + 1), 2))
    return ask(tokens, prompt + body[:i], body[j:]), body[i:j]


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids
