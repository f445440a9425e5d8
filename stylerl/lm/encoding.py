"""Tokenizers of code: loaded so that white space and control words are text.

A prompt and its completion are encoded alone, as sampling has them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from stylerl.errors import ModelError
from stylerl.lm.pretrained import from_pretrained

PAD_TOKEN = "<|pad|>"
NO_TEXT = "\U0010ffff"  # no character
SPACED = "    x  = 1\n\n\ty\n"  # what a tokenizer of code keeps
_PLAIN: WeakKeyDictionary[PreTrainedTokenizerBase, Tokenizer] = (
    WeakKeyDictionary()
)


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    """Load a tokenizer whose pad token exists and is never eos.

    A tokenizer without a pad token of its own gets `<|pad|>` appended;
    hand it to `load_causal_lm`, which then grows the embedding.  None puts a
    space before a text, as Llama's does: a completion is a text of its own,
    and one space less is another indentation.

    Raises:
        ModelError: the tokenizer cannot be found, or has no eos token.
    """
    tokenizer = from_pretrained(AutoTokenizer, name)
    if round_trip(tokenizer) != SPACED:
        bare = from_pretrained(AutoTokenizer, name, add_prefix_space=False)
        tokenizer = bare if round_trip(bare) == SPACED else tokenizer
    if tokenizer.eos_token_id is None and tokenizer.sep_token is not None:
        # An encoder's tokenizer, such as BERT's: [CLS] text [SEP].
        tokenizer.bos_token = tokenizer.cls_token
        tokenizer.eos_token = tokenizer.sep_token
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer of {name} must have an eos token: a completion "
            "ends with it"
        )
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        tokenizer.add_special_tokens({"pad_token": PAD_TOKEN})
    tokenizer.padding_side = "left"
    return tokenizer


def round_trip(tokenizer: PreTrainedTokenizerBase) -> str:
    """`SPACED`, encoded and decoded."""
    ids = encode_code(tokenizer, SPACED)
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, text: str, context: Sequence[int] = ()
) -> list[int]:
    """Token ids of a prompt, with the first token of every training document.

    The first id is the bos token or, where there is none, eos; then comes
    what is given before the prompt, and the prompt.
    """
    first = tokenizer.bos_token_id
    if first is None:
        first = tokenizer.eos_token_id
    ids = encode_code(tokenizer, text)
    return [*([] if first is None else [first]), *context, *ids]


def encode_code(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of a text; one that looks like a control token stays text.

    `return "<|im_end|>"` would otherwise hold the token that ends a text.
    """
    if not hasattr(tokenizer, "backend_tokenizer"):
        return tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
    if tokenizer not in _PLAIN:
        _PLAIN[tokenizer] = _without_control(tokenizer.backend_tokenizer)
    return list(_PLAIN[tokenizer].encode(text, add_special_tokens=False).ids)


def _without_control(backend: Tokenizer) -> Tokenizer:
    """A copy of a tokenizer without its added tokens, but for blanks.

    Some are not called special, as Phi-3's `</s>`, which takes the line end
    after it along.  Those that the vocabulary has are dropped, others get a
    name that no text has, so that each keeps its id.
    """
    parts = json.loads(backend.to_str())
    known = {
        token if isinstance(token, str) else token[0]
        for token in parts["model"]["vocab"]
    }
    parts["added_tokens"] = [
        token
        if token["content"].isspace()
        else token | {"content": f"{NO_TEXT}{token['id']}", "special": False}
        for token in parts["added_tokens"]
        if token["content"].isspace() or token["content"] not in known
    ]
    if (parts["normalizer"] or {}).get("type") == "NFC":  # as Qwen2's
        parts["normalizer"] = None  # it writes é for e and an accent
    plain = Tokenizer.from_str(json.dumps(parts))
    plain.no_padding()
    plain.no_truncation()
    return plain
