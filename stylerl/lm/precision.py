"""Which precision this machine computes fast in."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exact_products() -> Iterator[None]:
    """No TF32 in the block, whose products are off by a thousandth."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def computes_in_bf16(precision: str) -> bool:
    """Whether `bf16`, `fp32` or `auto` is bfloat16 here."""
    return precision == "bf16" or (precision == "auto" and multiplies_bf16())


def multiplies_bf16() -> bool:
    """Whether bf16 autocast is faster than fp32 on this machine.

    AMX multiplies bf16 fast.  AVX-512 does on AMD's cores; on Intel's, where
    AMX is absent or hidden by a hypervisor, a bf16 product took 1.5 times
    fp32's (2048 x 256 x 1024, torch 2.13).  Where torch does not name the
    processor, it counts as AMD's.
    """
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    intel = "intel" in str(has.get("cpu_name")).lower()
    return bool(has.get("amx_bf16") or (has.get("avx512_bf16") and not intel))
