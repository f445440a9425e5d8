"""Metric sums: added up where the tensors are, read once."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stylerl.config import PPOConfig
from stylerl.ppo.compute import Compute
from stylerl.ppo.meters import MetricSums


class Reads(TorchDispatchMode):
    """Counts how often a number is read from a tensor: a GPU is waited for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        read = torch.ops.aten._local_scalar_dense.default
        self.count += function is read
        return function(*args, **(kwargs or {}))


def test_sums_of_micro_batches_are_read_once():
    """(1 + 2 + 6) / 3 = 3, not the mean of 1.5 and 6; with another rank's
    (0 + 2) / 2 it is 11 / 5."""
    sums, other = MetricSums(), MetricSums()
    with Reads() as reads:
        for values in ([1.0, 2.0], [6.0]):
            tensor = torch.tensor(values, requires_grad=True)
            sums.add({"loss": tensor, "twice": 2 * tensor})
            sums.maximum("most", tensor)
        other.add({"loss": torch.tensor([0.0, 2.0])})
        other.maximum("most", torch.tensor([7.0]))
    assert reads.count == 0
    both = MetricSums()
    for each in (sums, other):
        numbers = each.on_host()
        assert all(type(x) is float for x in numbers.sums.values())
        both.merge(numbers)
    assert sums.on_host().metrics() == {"loss": 3.0, "twice": 6.0, "most": 6.0}
    assert both.metrics() == {"loss": 11 / 5, "twice": 6.0, "most": 7.0}


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
