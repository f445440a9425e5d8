"""How forward passes are computed: precision, attention, micro-batches.

Rollouts are scored and learnt from with the same settings, or the ratio of
the first optimiser step would not be 1.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stylerl.config import PPOConfig
from stylerl.lm.attention import attention
from stylerl.lm.logprobs import response_states, right_pad, token_scores
from stylerl.lm.precision import computes_in_bf16
from stylerl.ppo.policy import PolicyWithValue
from stylerl.ppo.rollouts import MicroBatch, Rollouts, SampledRollouts

SHORT = 320  # tokens; bf16 attention on a CPU is computed eagerly up to here


@dataclass(frozen=True)
class Compute:
    """Settings of every forward pass."""

    bf16: bool  # autocast
    micro_batch: int  # sequences a forward pass; 0 takes all at once
    temperature: float
    device: torch.device

    @classmethod
    def of(cls, config: PPOConfig, device: torch.device) -> "Compute":
        """The settings of a config; `auto` is decided here.

        Beside bf16, what is left in fp32 on a GPU (reward models, heads) may
        be multiplied in TF32, which is faster, and still finer than bf16.
        This is set for the whole process, and stays set.
        """
        bf16 = computes_in_bf16(config.precision)
        if bf16 and device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        return cls(bf16, config.micro_batch, config.temperature, device)

    def autocast(self, *, enabled: bool = True) -> torch.autocast:
        """bf16 autocast where it was chosen."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bf16 and enabled
        )

    def attention(
        self, batch: SampledRollouts, *models: PreTrainedModel
    ) -> AbstractContextManager[None]:
        """Eager attention where it is the faster one, inside the block.

        On a CPU in bf16, torch's fused attention is slower for short
        sequences; eager memory grows with the square of the length.
        """
        longest = int((batch.prompt_lengths + batch.response_lengths).max())
        if self.bf16 and self.device.type == "cpu" and longest <= SHORT:
            return attention("eager", *models)
        return nullcontext()

    def passes(self, rows: Tensor) -> int:
        """How many micro-batches `rows` make."""
        return -(-len(rows) // (self.micro_batch or max(1, len(rows))))

    def micro_batches(
        self, batch: SampledRollouts, rows: Tensor
    ) -> Iterator[tuple[Tensor, MicroBatch]]:
        """Cut `rows` of a batch by length, so that little is padding.

        Yields the rows of each micro-batch, (b,), and their tokens.  The
        longest come first: where the first pass fits in memory, all do.
        """
        total = (batch.prompt_lengths + batch.response_lengths)[rows]
        order = rows[total.argsort(descending=True, stable=True)]
        size = self.micro_batch or max(1, len(order))
        for part in order.split(size) if len(order) else ():
            tokens = (
                right_pad([batch.input_ids[i] for i in part.tolist()], pad=0),
                batch.prompt_lengths[part],
                batch.response_lengths[part],
            )
            yield part, MicroBatch(*(x.to(self.device) for x in tokens))


@torch.no_grad()
def score(
    policy: PolicyWithValue,
    reference: PreTrainedModel | None,
    sampled: SampledRollouts,
    compute: Compute,
) -> Rollouts:
    """Add log pi_old, log pi_ref, entropy and values, (B, R) each.

    Without a `reference`, pi_ref is the policy with its adapters off.
    """
    base, off = policy.model, policy.adapters_off
    if reference is not None:
        base, off = reference, nullcontext
    found = [torch.zeros(sampled.mask.shape) for _ in range(4)]
    every = torch.arange(len(sampled.input_ids))
    with compute.attention(sampled, policy.model, base):
        for rows, micro in compute.micro_batches(sampled, every):
            with compute.autocast():
                ours = policy(*micro, compute.temperature)
                with off():
                    states = response_states(base, *micro)
                theirs = token_scores(base, *states, compute.temperature)
            inside = sampled.mask[rows]
            # Scores come laid end to end, (N,), in one transfer from a GPU:
            # back to their rows, (b, R).
            flat = torch.stack([*ours, theirs.logprobs]).cpu()
            for padded, scores in zip(found, flat, strict=True):
                part = torch.zeros(inside.shape)
                part[inside] = scores
                padded[rows] = part
    logprobs, entropy, values, ref_logprobs = found
    return Rollouts(
        **vars(sampled),
        logprobs=logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropy,
        values=values,
    )
