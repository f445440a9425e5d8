"""The doctor's checks of the configured model, the last of them PPO's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from stylerl.cli import between_prompts, rehearsal
from stylerl.cli.findings import Finding, Status
from stylerl.cli.rehearsal import Rehearsal
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError, ModelError
from stylerl.lm import models
from stylerl.ppo import health, memory
from stylerl.ppo.policy import PolicyWithValue

WHITESPACE = "def f(x):\n\tif x:\n\t\treturn  x \n\n\n    # é 漢\r\n\x0c  "
ATTENTION_TOLERANCE = 1e-3  # of logits, fp32
RATIO_TOLERANCE = 1e-3  # of log-probabilities, fp32
SFT = "artifacts/sft"


def examine(root: Path, params: Params) -> Iterator[Finding]:
    """Check that the configured model can be trained by PPO, step by step."""
    name = os.fspath(root / params.sft.base)
    model = check_model(name)
    yield model
    if model.status is Status.FAIL:
        return
    yield check_tokenizer(name)
    yield check_attention(name)
    yield from check_first_update(root, params)
    yield check_baseline(root, params)
    if params.ppo.lora_rank:
        yield check_adapters(name, params)
    yield check_memory(name, params)


def check_model(name: str) -> Finding:
    """The base model can be loaded."""
    try:
        size = memory.shape_of(name)
    except ModelError as error:
        return Finding(
            "base model",
            str(error),
            "`dvc repro base` makes artifacts/base; or name another folder "
            "in sft.base",
        )
    return Finding("base model", f"{size.parameters / 1e6:.1f}M parameters")


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


def check_first_update(root: Path, params: Params) -> Iterator[Finding]:
    """PPO's invariants, on the SFT model where there is one by now."""
    name = os.fspath(root / params.sft.base)
    if (root / SFT).is_dir():
        name = os.fspath(root / SFT)
    try:
        found = rehearsal.rehearse(name, params)
    except ModelError as error:
        yield Finding(
            "rehearsal",
            str(error),
            "lower ppo.max_new_tokens, or choose another model",
        )
        return
    yield from _invariants(found)
    yield from _samples(found, params.ppo.max_new_tokens)


def _invariants(found: Rehearsal) -> Iterator[Finding]:
    """What must hold of any policy before its first step."""
    if abs(found.ratio) < RATIO_TOLERANCE:
        yield Finding("ratio", "1 before the first step")
    else:
        yield Finding(
            "ratio",
            "the same weights give a text another probability the second "
            f"time: {1 + found.ratio:.4g} times the first",
            "something in the model is random, such as a dropout of its "
            "own: choose a stock Llama, GPT-2 or similar model",
        )
    if found.padding < RATIO_TOLERANCE and found.alike:
        yield Finding("padding", "changes no score and no sample")
    else:
        yield Finding(
            "padding",
            "a text is scored or sampled differently next to a longer one "
            f"(log-probabilities differ by {found.padding:.2g})",
            "the model ignores attention_mask or position_ids: choose "
            "a stock Llama, GPT-2 or similar model",
        )


def _samples(found: Rehearsal, limit: int) -> Iterator[Finding]:
    """Whether there is something to learn from what the model writes."""
    remedy = (
        "ppo.missing_eos_penalty would charge most: raise "
        "ppo.max_new_tokens, or let SFT teach it to end"
    )
    yield Finding(
        "endings",
        f"{found.ended:.0%} of {rehearsal.SAMPLES} samples end within "
        f"{limit} tokens",
        remedy if found.ended < 0.5 else "",
        fatal=False,
    )
    remedy = (
        "all texts are worth the same, so there is nothing to learn: lower "
        "ppo.temperature, or train the base or SFT model longer so that its "
        "texts parse"
    )
    yield Finding(
        "reward",
        f"the linter's rewards of {rehearsal.SAMPLES} samples have a "
        f"standard deviation of {found.spread:.2f}",
        remedy if found.spread < health.FLAT else "",
        fatal=False,
    )


def check_baseline(root: Path, params: Params) -> Finding:
    """How much of the reward a baseline could explain, where SFT is done."""
    name = "baseline"
    try:
        found = between_prompts.measure(root, params)
    except (ConfigError, DataError, ModelError) as error:
        return Finding(name, f"what it can explain is not known yet: {error}")
    shares = [
        f"{what} {each.estimate:.3f} [{each.low:.3f}, {each.high:.3f}]"
        for what, each in (
            ("compliance", found.compliance),
            ("the reward", found.reward),
        )
    ]
    size = params.ppo.group_size
    return Finding(
        name,
        f"{params.ppo.baseline}; share of the variance between prompts (ICC) "
        f"of {' and of '.join(shares)}, {found.prompts} prompts x "
        f"{between_prompts.SAMPLES}; for the reward "
        f"{between_prompts.meaning(found.reward.estimate, size)}",
    )


def check_adapters(name: str, params: Params) -> Finding:
    """LoRA finds the layers it is to adapt."""
    ppo, model = params.ppo, models.load_causal_lm(name)
    policy = PolicyWithValue(model, value=ppo.critic)
    size = model.num_parameters()
    try:
        policy.add_adapters(ppo.lora_rank, ppo.lora_alpha, ppo.lora_targets, 0)
    except ConfigError as error:
        return Finding(
            "adapters",
            str(error),
            "set ppo.lora_targets to [all-linear], or ppo.lora_rank to 0",
        )
    trained = sum(weight.numel() for weight in policy.trained().values())
    return Finding(
        "adapters", f"LoRA trains {trained:,} of {size:,} parameters"
    )


def check_memory(name: str, params: Params) -> Finding:
    """PPO, the largest stage, would fit into what is free."""
    needed = memory.ppo_bytes(memory.shape_of(name), params.ppo)
    free = memory.available_bytes()
    detail = (
        f"{free / 2**30:.1f} GiB free; PPO takes about {needed / 2**30:.1f}"
    )
    remedy = "set ppo.pass_tokens to a smaller number than it is, but not 0"
    return Finding("memory", detail, remedy if needed > free else "")
