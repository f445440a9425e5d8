"""How forward passes are computed: precision, attention, micro-batches.

Rollouts are scored and trained on by the same settings: the ratio of the
first step is 1 only then.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stylerl.config import PPOConfig
from stylerl.lm.logprobs import response_states, right_pad, token_scores
from stylerl.lm.training import multiplies_bf16
from stylerl.ppo.policy import PolicyWithValue, attention
from stylerl.ppo.rollouts import MicroBatch, Rollouts

SHORT = 320  # tokens; bf16 attention on a CPU is computed eagerly up to here


@dataclass(frozen=True)
class Compute:
    """Settings of every forward pass."""

    bf16: bool  # autocast
    micro_batch: int  # sequences a pass; 0 takes all at once
    temperature: float
    device: torch.device

    @classmethod
    def of(cls, config: PPOConfig, device: torch.device) -> "Compute":
        """The settings of a config; `auto` is decided here."""
        bf16 = config.precision == "bf16" or (
            config.precision == "auto" and multiplies_bf16()
        )
        return cls(bf16, config.micro_batch, config.temperature, device)

    def autocast(self, *, enabled: bool = True) -> torch.autocast:
        """bf16 autocast where it was chosen."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bf16 and enabled
        )

    def attention(
        self, batch: Rollouts, *models: PreTrainedModel
    ) -> AbstractContextManager[None]:
        """On a CPU in bf16, torch's fused attention is the slower one for
        short sequences; eager memory grows with the square of the length.
        """
        longest = int((batch.starts + batch.lengths).max())
        if self.bf16 and self.device.type == "cpu" and longest <= SHORT:
            return attention("eager", *models)
        return nullcontext()

    def passes(self, rows: Tensor) -> int:
        """How many micro-batches `rows` make."""
        return -(-len(rows) // (self.micro_batch or max(1, len(rows))))

    def micro_batches(
        self, batch: Rollouts, rows: Tensor
    ) -> Iterator[tuple[Tensor, MicroBatch]]:
        """Cut `rows` of a batch by length: little padding is computed.

        Yields the rows of each micro-batch, (b,), and their tokens.  The
        longest come first: memory that suffices for the first pass suffices
        for all.
        """
        total = (batch.starts + batch.lengths)[rows]
        order = rows[total.argsort(descending=True, stable=True)]
        size = self.micro_batch or max(1, len(order))
        for part in order.split(size) if len(order) else ():
            tokens = (
                right_pad([batch.rows[i] for i in part.tolist()], pad=0),
                batch.starts[part],
                batch.lengths[part],
            )
            yield part, MicroBatch(*(x.to(self.device) for x in tokens))


@torch.no_grad()
def score(
    policy: PolicyWithValue,
    reference: PreTrainedModel | None,
    batch: Rollouts,
    compute: Compute,
) -> Rollouts:
    """Fill in log pi_old, log pi_ref, entropy and values, (B, R) each.

    Without a `reference`, pi_ref is the policy with its adapters off.
    """
    base, off = policy.model, policy.adapters_off
    if reference is not None:
        base, off = reference, nullcontext
    found = [torch.zeros(batch.mask.shape) for _ in range(4)]
    every = torch.arange(len(batch.rows))
    with compute.attention(batch, policy.model, base):
        for rows, micro in compute.micro_batches(batch, every):
            with compute.autocast():
                ours = policy(*micro, compute.temperature)
                with off():
                    states = response_states(base, *micro)
                theirs = token_scores(base, *states, compute.temperature)
            inside = batch.mask[rows]
            for full, flat in zip(
                found, (*ours, theirs.logprobs), strict=True
            ):
                part = torch.zeros(inside.shape)
                part[inside] = flat.cpu()
                full[rows] = part
    logprobs, entropy, values, ref_logprobs = found
    return dataclasses.replace(
        batch,
        logprobs=logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropy,
        values=values,
    )
