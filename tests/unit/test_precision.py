"""Which machines compute faster in bf16."""

import pytest
import torch

from stylerl.lm.precision import computes_in_bf16, multiplies_bf16


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
