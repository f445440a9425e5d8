"""Where a run took place: packages, hardware and commit, as flat strings."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

CODE = ("stylerl", "tasks", "flows", "dvc.yaml", "requirements.lock")
BF16 = ("amx_bf16", "avx512_bf16")  # others give other bits
PACKAGES = (
    "torch", "transformers", "trl", "flake8", "pycodestyle", "ruff",
)  # fmt: skip


def describe() -> dict[str, str]:
    """The facts that explain why two runs differ; takes ~20 ms."""
    return {
        **commit(),
        "version.python": platform.python_version(),
        **{f"version.{name}": _version(name) for name in PACKAGES},
        "machine.platform": platform.platform(),
        "machine.cpu": cpu(),
        "machine.cores": str(len(os.sched_getaffinity(0)))
        if hasattr(os, "sched_getaffinity")
        else str(os.cpu_count()),
        "machine.memory_gib": f"{_memory() / 2**30:.1f}",
        "machine.gpu": _gpu(),
    }


def commit() -> dict[str, str]:
    """The git commit and whether its code was changed; {} outside git."""
    head = _output("git", "rev-parse", "HEAD")
    if not head:
        return {}
    changes = _output("git", "status", "--porcelain", "-uno", "--", *CODE)
    return {
        "mlflow.source.git.commit": head,  # the UI has a column for it
        "git.dirty": str(bool(changes)).lower(),
    }


def _version(package: str) -> str:
    """An installed package's version, `none` without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def cpu(info: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, and which bf16 instructions it has."""
    if not info.exists():
        return platform.processor() or platform.machine()
    lines = [line.partition(":") for line in info.read_text().splitlines()]
    facts = {key.strip(): value.strip() for key, _, value in lines}
    flags = facts.get("flags", "").split()
    name = facts.get("model name", platform.machine())
    return ", ".join([name, *(f for f in BF16 if f in flags)])


def _memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpu() -> str:
    """Names of the NVIDIA devices, `none` without."""
    query = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return ", ".join(query.splitlines()) or "none"


def _output(*command: str) -> str:
    """What a command prints; empty when it fails or does not exist."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
