"""What a benchmark's figures are measured against: the machine itself."""

import os
import platform
import resource
import time
from pathlib import Path

import torch


def hardware() -> str:
    """The processor or GPU that computes."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    name = names[0] if names else platform.machine()
    return f"{name}, {os.cpu_count()} logical cores"


def peak_gib() -> float:
    """The most memory so far: of the GPU, or of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def matmul_rate(dtype: torch.dtype) -> float:
    """Operations a second of a matrix product of 1,024; 8,192 on a GPU."""
    cuda = torch.cuda.is_available()
    side = 8192 if cuda else 1024
    a, b = torch.randn(
        2, side, side, device="cuda" if cuda else "cpu", dtype=dtype
    )
    for least in (0.2, 1.0):  # seconds; the first warm up
        count, begin = 0, time.perf_counter()
        while (seconds := time.perf_counter() - begin) < least:
            a @ b
            if cuda:
                torch.cuda.synchronize()
            count += 1
    return 2.0 * side**3 * count / seconds
