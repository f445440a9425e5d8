"""The doctor's checks of the configured model."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from stylerl.cli.findings import Finding, Status
from stylerl.config import Params
from stylerl.errors import ModelError
from stylerl.lm import models
from stylerl.ppo.policy import PolicyWithValue

WHITESPACE = "def f(x):\n\tif x:\n\t\treturn  x \n\n\n    # é 漢\r\n\x0c  "
ATTENTION_TOLERANCE = 1e-3  # of logits, fp32


def examine(root: Path, params: Params) -> Iterator[Finding]:
    """Check that the configured model can be trained, step by step."""
    name = os.fspath(root / params.sft.base)
    model = check_model(name)
    yield model
    if model.status is Status.FAIL:
        return
    yield check_tokenizer(name)
    yield check_attention(name)
    if params.ppo.lora_rank:
        yield check_adapters(name, params)


def check_model(name: str) -> Finding:
    """The base model can be loaded."""
    try:
        size = models.load_causal_lm(name).num_parameters()
    except ModelError as error:
        return Finding(
            "base model",
            str(error),
            "`dvc repro base` makes artifacts/base; or name another folder "
            "in sft.base",
        )
    return Finding("base model", f"{size / 1e6:.1f}M parameters")


def check_tokenizer(name: str) -> Finding:
    """The tokenizer keeps every character, and pad is not eos."""
    tokenizer = models.load_tokenizer(name)
    ids = tokenizer.encode(WHITESPACE, add_special_tokens=False)
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if back != WHITESPACE:
        return Finding(
            "tokenizer",
            f"{WHITESPACE!r} comes back as {back!r}",
            "style lives in whitespace: choose a model whose tokenizer is "
            "byte-level",
        )
    if tokenizer.pad_token_id == tokenizer.eos_token_id:
        return Finding(
            "tokenizer",
            "pad is eos, so the end of a text could not be learnt",
            "give the tokenizer a pad token of its own",
        )
    return Finding("tokenizer", "keeps whitespace; pad is not eos")


def check_attention(name: str) -> Finding:
    """The fused attention computes what the plain one does."""
    tokenizer = models.load_tokenizer(name)
    ids = torch.tensor([models.encode_prompt(tokenizer, WHITESPACE)])
    mask = torch.ones_like(ids)
    logits = []
    for attention in ("sdpa", "eager"):
        model = models.load_causal_lm(
            name, tokenizer=tokenizer, attention=attention
        )
        with torch.inference_mode():
            logits.append(model(input_ids=ids, attention_mask=mask).logits)
    gap = float((logits[0] - logits[1]).abs().max())
    if gap > ATTENTION_TOLERANCE:
        return Finding(
            "attention",
            f"sdpa and eager differ by {gap:.2g} in the logits",
            "update transformers: pip install -r requirements.lock",
        )
    return Finding("attention", f"sdpa = eager to {gap:.1g}")


def check_adapters(name: str, params: Params) -> Finding:
    """How much LoRA trains."""
    ppo, model = params.ppo, models.load_causal_lm(name)
    policy = PolicyWithValue(model, value=ppo.critic)
    size = model.num_parameters()
    policy.add_adapters(ppo.lora_rank, 0)
    trained = sum(weight.numel() for weight in policy.trained().values())
    return Finding(
        "adapters", f"LoRA trains {trained:,} of {size:,} parameters"
    )
