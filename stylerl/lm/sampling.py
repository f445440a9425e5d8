"""Sampling completions, and the log-probabilities of given ones.

Each row draws from a random stream of its own, fixed by (seed, row): the
same seed gives the same completions whatever else is in the batch, and
comparing two models "on the same seeds" means something.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.errors import ModelError
from stylerl.lm import encoding, models
from stylerl.lm.cut import whole_lines
from stylerl.lm.decoding import Listener, decode_batch
from stylerl.lm.encoding import encode_prompt
from stylerl.lm.logprobs import response_scores
from stylerl.lm.memory import give_back
from stylerl.lm.models import bf16_copy, context_limit
from stylerl.lm.packing import passes
from stylerl.lm.steps import draw_uniforms

PASS_TOKENS = 2048  # about so many a forward pass: more take memory, not time
BATCH_SIZE = 128  # rows decoded together: 64 took an eighth longer on a CPU


@dataclass(frozen=True)
class Completions:
    """What was sampled for a list of prompts, in their order.

    `ids` holds the sampled tokens, the closing eos included; `texts` is
    their text without it.  A completion that reached the token limit before
    it is not `finished`.
    """

    prompt_ids: list[list[int]]
    ids: list[list[int]]
    finished: list[bool]
    texts: list[str]

    @property
    def judged(self) -> list[str]:
        """The texts to judge: a cut completion without its last line."""
        return [
            text if finished else whole_lines(text)
            for text, finished in zip(self.texts, self.finished, strict=True)
        ]


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    temperature: float | Sequence[float] = 1.0,
    seed: int = 0,
    rows: Sequence[int] | None = None,
    batch_size: int = BATCH_SIZE,
    bf16: bool = False,
    encode: Callable[[str], list[int]] | None = None,
    desc: str | None = None,
    listen: Callable[[str], None] | None = None,
    ends: Callable[[str], bool] | None = None,
) -> Completions:
    """Sample one completion a prompt from softmax(logits / temperature).

    `rows` numbers the prompts, 0, 1, ... by default: prompt i draws from the
    stream of (seed, rows[i]).  Temperature 0 takes the likeliest token; each
    prompt may have a temperature of its own.
    A completion ends with eos.  `bf16` samples from a copy of the model in
    bfloat16, two to three times as fast where the CPU has it.
    `encode` gives a prompt's token ids, with what comes before it; by default
    they are those of the prompt alone.  A progress bar named `desc` counts
    completions.
    `listen` is told a lone prompt's completion as it grows.  A completion
    for which `ends` is true before the token limit is finished too; a GPU
    does not ask.

    Raises:
        ModelError: a prompt and its completion do not fit the model.
    """
    give_back()
    encode = encode or partial(encode_prompt, tokenizer)
    ids_of = {prompt: encode(prompt) for prompt in dict.fromkeys(prompts)}
    prompt_ids = [ids_of[prompt] for prompt in prompts]
    _check_context(model, prompt_ids, max_new_tokens)
    sampled_from = model
    if bf16 and model.dtype != torch.bfloat16:
        sampled_from = bf16_copy(model)
    temperatures = torch.empty(len(prompts))
    temperatures[:] = torch.as_tensor(temperature)
    eos = tokenizer.eos_token_id
    ids: list[list[int]] = [[] for _ in prompts]
    # Prompts of similar length share a batch, so that little is padded.
    order = sorted(range(len(prompts)), key=lambda i: len(prompt_ids[i]))
    with tqdm(
        total=len(prompts), desc=desc, unit="sample", disable=desc is None
    ) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            numbers = [i if rows is None else rows[i] for i in batch]
            sampled = decode_batch(
                sampled_from,
                [prompt_ids[i] for i in batch],
                draw_uniforms(seed, numbers, max_new_tokens),
                temperatures[batch],
                tokenizer.pad_token_id,
                eos,
                _listener(listen, tokenizer),
                ends and (lambda ids: ends(decode(tokenizer, ids))),
            )
            for i, tokens in zip(batch, sampled, strict=True):
                ids[i] = tokens
            bar.update(len(batch))
    finished = [tokens[-1:] == [eos] for tokens in ids]
    texts = [
        decode(tokenizer, tokens[:-1] if ended else tokens)
        for tokens, ended in zip(ids, finished, strict=True)
    ]
    return Completions(prompt_ids, ids, finished, texts)


def _listener(
    listen: Callable[[str], None] | None, tokenizer: PreTrainedTokenizerBase
) -> Listener | None:
    """Tells the text of the first response, without its eos."""
    if listen is None:
        return None
    eos = tokenizer.eos_token_id
    return lambda drawn: listen(
        decode(tokenizer, [token for token in drawn[0] if token != eos])
    )


def decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    """The text of sampled tokens, whitespace untouched, and control tokens
    as they are written: what nobody sees, nobody judges."""
    text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return str(text)


@torch.inference_mode()
def response_logprobs(
    model: PreTrainedModel,
    prompt_ids: Sequence[Sequence[int]],
    ids: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    pass_tokens: int = PASS_TOKENS,
    desc: str | None = None,
) -> list[Tensor]:
    """Log-probabilities of given responses: one (r,) fp32 tensor each.

    A forward pass sees about `pass_tokens`, or one response.
    """
    give_back()
    result = [torch.empty(0)] * len(ids)
    written = [i for i in range(len(ids)) if ids[i]]
    with tqdm(
        total=len(written), desc=desc, unit="text", disable=desc is None
    ) as bar:
        for rows, cut in passes(prompt_ids, ids, written, pass_tokens):
            scores = response_scores(model, cut.to(model.device), temperature)
            lengths = [len(ids[i]) for i in rows]
            by_response = scores.logprobs.cpu().split(lengths)
            for i, logprobs in zip(rows, by_response, strict=True):
                result[i] = logprobs.clone()
            bar.update(len(rows))
    return result


def fits_all(names: Iterable[str | Path], new: int) -> Callable[[str], bool]:
    """Whether a prompt and `new` tokens fit every model.

    Raises:
        ModelError: a model cannot be found.
    """
    rooms = [
        (encoding.load_tokenizer(name), models.positions(name) - new)
        for name in names
    ]
    return lambda prompt: all(
        len(encode_prompt(tokenizer, prompt)) <= room
        for tokenizer, room in rooms
    )


def _check_context(
    lm: PreTrainedModel, prompts: list[list[int]], new: int
) -> None:
    """Raise ModelError where a completion could outgrow the positions."""
    limit = context_limit(lm.config)
    longest = max((len(ids) for ids in prompts), default=0)
    if longest + new > limit:
        raise ModelError(
            f"a prompt and its completion must fit the model's {limit} "
            f"positions; the longest prompt has {longest} tokens and "
            f"max_new_tokens is {new}: lower it or leave long prompts out"
        )
