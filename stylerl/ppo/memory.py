"""How much memory PPO will take, estimated before it starts.

An estimate to warn by, not a promise: weights, gradients and Adam's moments
are exact, activations are counted for a stock decoder, and a fixed sum
is added for Python, torch and the corpus.
"""

from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from stylerl.config import PPOConfig
from stylerl.lm import models
from stylerl.lm.adapters import linear_layers
from stylerl.lm.logprobs import CHUNK

PROGRAM = int(1.0 * 2**30)  # Python, torch, transformers and tables
STATE = 16  # bytes a trained parameter: weight, gradient, two moments
FROZEN = 4  # bytes a frozen parameter, fp32
PROMPT_TOKENS = 96  # a signature and its docstring
TENSORS_A_LAYER = 20  # of hidden size, kept for the backward pass
LOGIT_COPIES = 3  # logits, log-softmax, gradient
CGROUP = Path("/sys/fs/cgroup")


class Shape(NamedTuple):
    """What of a model decides its memory."""

    parameters: int
    hidden: int
    layers: int
    vocabulary: int
    adapted: int  # a LoRA adapter of rank 1 on every layer


def shape_of(name: str) -> Shape:
    """The shape of a model folder or hub model.

    Raises:
        ModelError: it cannot be found or loaded.
    """
    model = models.load_causal_lm(name)
    settings = model.config
    return Shape(
        sum(weight.numel() for weight in model.parameters()),
        settings.hidden_size,
        settings.num_hidden_layers,
        settings.vocab_size,
        sum(sum(x.weight.shape) for x in linear_layers(model).values()),
    )


def ppo_bytes(shape: Shape, ppo: PPOConfig) -> int:
    """Peak bytes of the PPO stage: policy, reference, reward, activations."""
    sequences = -(-ppo.batch_size // ppo.num_minibatches)  # rounded up
    tokens = sequences * (PROMPT_TOKENS + ppo.max_new_tokens)
    if ppo.pass_tokens:
        tokens = min(tokens, ppo.pass_tokens)
    layer = TENSORS_A_LAYER * shape.hidden * 4
    head = LOGIT_COPIES * min(CHUNK, tokens * shape.vocabulary) * 4
    trained, frozen = shape.parameters, 2 * shape.parameters
    if ppo.lora_rank:  # the policy is its own reference
        trained = ppo.lora_rank * shape.adapted
    return (
        PROGRAM
        + trained * STATE
        + frozen * FROZEN
        + tokens * shape.layers * layer
        + head
    )


def available_bytes() -> int:
    """Memory that a new process could take: a GPU's, where there is one;
    else by the kernel or the cgroup."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    free: int = psutil.virtual_memory().available
    limit = CGROUP / "memory.max"
    if limit.exists() and limit.read_text().strip().isdigit():
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(
            line.split()
            for line in (CGROUP / "memory.stat").read_text().splitlines()
        )
        cache = int(stat["inactive_file"])  # the kernel gives it back
        free = min(free, int(limit.read_text()) - used + cache)
    return free
