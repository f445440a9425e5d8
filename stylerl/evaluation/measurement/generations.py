"""Completions of the same prompts under the same seeds, by every model.

What each model writes, how far it has moved from SFT, and what it has kept of
human code; metrics.py measures it.

Notation: P prompts, S samples of each, so P x S completions a model.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl.config import EvaluateConfig
from stylerl.errors import DataError
from stylerl.lm import batching, encoding, models, sampling
from stylerl.lm.context import PromptEncoder, context_of
from stylerl.lm.precision import multiplies_bf16

if TYPE_CHECKING:
    from stylerl.evaluation.measurement.heldout import Prompt

REFERENCE = "sft"  # what KL is measured against
STREAMS = 2**32  # random streams a sample number has, one a prompt


class LoadedModel(NamedTuple):
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load_model(name: str) -> LoadedModel:
    """Load a model and its tokenizer onto the GPU, if there is one.

    All of it is computed in bf16 where that is faster, and in fp32 elsewhere.

    Raises:
        ModelError: it cannot be found or loaded.
    """
    tokenizer = encoding.load_tokenizer(name)
    model: Any = models.load_causal_lm(name, tokenizer)
    if multiplies_bf16():
        models.cast_weights(model, torch.bfloat16)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return LoadedModel(model.to(device), tokenizer)


def complete_prompts(
    name: str,
    loaded: LoadedModel,
    prompts: Sequence["Prompt"],
    *,
    reference: LoadedModel,
    config: EvaluateConfig,
    seed: int,
    kl: bool = True,
) -> pd.DataFrame:
    """One model's rows: the samples of each prompt.

    All models are given as much of a prompt's file as `reference` learnt
    with, and its tokens are counted.  A sample is a function of the model,
    the seed, the prompt's place and the sample's number, so the same numbers
    are the same draws for every model.  Columns: `model, prompt_id, sample,
    prompt, completion, judged` (without a line that was cut), `finished,
    tokens, kl`.
    """
    numbers = range(config.samples)
    ours, theirs = loaded.tokenizer, reference.tokenizer
    alike = loaded is reference or ours.get_vocab() == theirs.get_vocab()
    # One row a prompt and sample, all samples of a prompt together.
    places = [place for place in range(len(prompts)) for _ in numbers]
    repeated = [prompts[place] for place in places]
    samples = list(numbers) * len(prompts)
    drawn = sampling.generate(
        *loaded,
        [prompt.text for prompt in repeated],
        **config.sampling,
        seed=seed,
        rows=[
            number * STREAMS + place
            for number, place in zip(samples, places, strict=True)
        ],
        encode=PromptEncoder(
            ours,
            context_of(reference.model),
            {prompt.text: prompt.above for prompt in prompts},
        ),
        desc=f"evaluate: sample {name}",
    )
    return pd.DataFrame(
        {
            "model": name,
            "prompt_id": [prompt.id for prompt in repeated],
            "sample": samples,
            "prompt": [prompt.text for prompt in repeated],
            "completion": drawn.texts,
            "judged": drawn.judged,
            "finished": drawn.finished,
            "tokens": [
                len(ids) - done
                for ids, done in zip(drawn.ids, drawn.finished, strict=True)
            ]
            if alike
            else count_tokens(theirs, drawn.texts),
            "kl": _kl(loaded, reference, drawn, config, name)
            if alike and kl
            else math.nan,
        }
    )


def count_tokens(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]
) -> list[int]:
    """The length of each text in tokens."""
    return [len(encoding.encode_code(tokenizer, text)) for text in texts]


def bits_per_byte(
    loaded: LoadedModel, texts: Sequence[str], desc: str
) -> float:
    """Bits a byte of human code costs the model, its end token included.

    Texts that outgrow the model's positions are left out.

    Raises:
        DataError: none fits.
    """
    model, tokenizer = loaded
    limit = models.context_limit(model.config)
    documents = {t: batching.encode_document(tokenizer, t) for t in texts}
    fitting = {t: ids for t, ids in documents.items() if len(ids) <= limit}
    if not fitting:
        raise DataError(
            f"bits per byte needs texts of at most {limit} tokens; none of "
            f"{len(texts)} is: raise filter.test_share or lower "
            "filter.max_chars"
        )
    logprobs = sampling.response_logprobs(
        model,
        [ids[:1] for ids in fitting.values()],
        [ids[1:] for ids in fitting.values()],
        desc=desc,
    )
    nats = -sum(float(response.double().sum()) for response in logprobs)
    return nats / math.log(2) / sum(len(text.encode()) for text in fitting)


def _kl(
    loaded: LoadedModel,
    reference: LoadedModel,
    drawn: sampling.Completions,
    config: EvaluateConfig,
    name: str,
) -> list[float]:
    """log p(model) - log p(reference) of each response, in nats."""
    if loaded is reference:
        return [0.0] * len(drawn.ids)
    sums = []
    for model in (loaded.model, reference.model):
        logprobs = sampling.response_logprobs(
            model,
            drawn.prompt_ids,
            drawn.ids,
            temperature=config.temperature,
            desc=f"evaluate: KL of {name}",
        )
        sums.append([float(response.double().sum()) for response in logprobs])
    return [policy - other for policy, other in zip(*sums, strict=True)]
