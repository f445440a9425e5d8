"""Which precision this machine computes fast in."""

import torch


def computes_in_bf16(precision: str) -> bool:
    """Whether `bf16`, `fp32` or `auto` is bfloat16 here."""
    return precision == "bf16" or (precision == "auto" and multiplies_bf16())


def multiplies_bf16() -> bool:
    """Whether bf16 autocast is faster than fp32 on this machine."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(
        capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    )
