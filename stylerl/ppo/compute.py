"""Forward passes: their precision, and which rows share one.

Rollouts are scored and learnt from with the same settings, or the ratio of
the first optimiser step would not be 1.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stylerl.config import PPOConfig
from stylerl.lm.logprobs import response_scores
from stylerl.lm.packing import Pack, passes
from stylerl.lm.precision import computes_in_bf16
from stylerl.ppo.policy import Policy
from stylerl.ppo.rollouts import Rollouts, SampledRollouts


@dataclass(frozen=True)
class Compute:
    """Settings of every forward pass."""

    bf16: bool
    autocasts: bool  # what is trained is fp32, and cast in each pass
    pass_tokens: int  # about so many a forward pass; 0 takes all at once
    temperature: float
    device: torch.device

    @classmethod
    def of(cls, config: PPOConfig, device: torch.device) -> "Compute":
        """The settings of a config; `auto` is decided here.

        Beside bf16, what is left in fp32 on a GPU (adapters, as they are
        merged) may be multiplied in TF32, which is faster, and still finer.
        This is set for the whole process, and stays set.
        """
        bf16 = computes_in_bf16(config.precision)
        if bf16 and device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        return cls(
            bf16,
            bf16 and not config.lora_rank,
            config.pass_tokens,
            config.temperature,
            device,
        )

    def autocast(self, *, enabled: bool = True) -> torch.autocast:
        """bf16 autocast where trained weights need it."""
        enabled = enabled and self.autocasts
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=enabled
        )

    def packs(
        self, batch: SampledRollouts, rows: Tensor
    ) -> Iterator[tuple[Tensor, Pack]]:
        """Cut `rows` of a batch into passes; the rows of each are (b,)."""
        starts = batch.prompt_lengths.tolist()
        cut = [*zip(batch.input_ids, starts, strict=True)]
        for part, packed in passes(
            [ids[:start] for ids, start in cut],
            [ids[start:] for ids, start in cut],
            rows.tolist(),
            self.pass_tokens,
        ):
            yield torch.tensor(part), packed.to(self.device)


@torch.no_grad()
def score(
    policy: Policy,
    reference: PreTrainedModel | None,
    sampled: SampledRollouts,
    compute: Compute,
) -> Rollouts:
    """Add log pi_old, its entropy and log pi_ref, (B, R) each.

    Without a `reference`, pi_ref is the policy with its adapters off.
    """
    base, off = policy.model, policy.adapters_off
    if reference is not None:
        base, off = reference, nullcontext
    columns = [torch.zeros(sampled.mask.shape) for _ in range(3)]
    every = torch.arange(len(sampled.input_ids))
    for rows, packed in compute.packs(sampled, every):
        with compute.autocast():
            ours = response_scores(policy.model, packed, compute.temperature)
            with off():
                theirs = response_scores(base, packed, compute.temperature)
        inside = sampled.mask[rows]
        # Scores come laid end to end, (N,), in one transfer from a GPU: back
        # to their rows, (b, R).
        flat = torch.stack([*ours, theirs.logprobs]).cpu()
        for padded, scores in zip(columns, flat, strict=True):
            part = torch.zeros(inside.shape)
            part[inside] = scores
            padded[rows] = part
    logprobs, entropy, ref_logprobs = columns
    return Rollouts(
        **vars(sampled),
        logprobs=logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropy,
    )
