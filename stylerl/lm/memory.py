"""Return freed memory to the system.

Passes of many shapes leave a CPU's heap in pieces, which glibc keeps: over
twelve updates a process grew by a gigabyte and a half.
"""

import ctypes
import sys


def give_back() -> None:
    """Return freed memory to the system, where glibc manages it."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)
