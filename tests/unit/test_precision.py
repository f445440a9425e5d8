"""Which machines compute faster in bf16, and what a GPU then does in fp32."""

import pytest
import torch

from stylerl.config import PPOConfig
from stylerl.lm.precision import computes_in_bf16, multiplies_bf16
from stylerl.ppo.compute import Compute


@pytest.mark.parametrize(
    ("has", "fast"),
    [
        ({"amx_bf16": True, "cpu_name": "Intel Xeon"}, True),
        # AVX-512's products alone are no faster there than fp32's
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, False),
        ({"avx512_bf16": True, "cpu_name": "AMD EPYC"}, True),
        ({"avx512_bf16": True}, True),
        ({"avx2": True, "amx_bf16": False}, False),
    ],
)
def test_auto_takes_what_is_faster(monkeypatch, has, fast):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert multiplies_bf16() is computes_in_bf16("auto") is fast
    assert computes_in_bf16("bf16") and not computes_in_bf16("fp32")


@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [
        ("cuda", "bf16", "high"),
        ("cuda", "fp32", "highest"),
        ("cpu", "bf16", "highest"),
    ],
)
def test_fp32_products_on_a_gpu_are_tf32_beside_bf16(
    device, precision, expected
):
    """Where fp32 was asked for, it is fp32."""
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        Compute.of(PPOConfig(precision=precision), torch.device(device))
        assert torch.get_float32_matmul_precision() == expected
    finally:
        torch.set_float32_matmul_precision(before)
