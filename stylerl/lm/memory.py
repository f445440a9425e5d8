"""Return freed memory to the system.

Passes of many shapes leave a CPU's heap in pieces, which glibc keeps: over
twelve updates a process grew by a gigabyte and a half.
"""

import ctypes
import sys


def give_back() -> None:
    """Return freed memory to the system; torch on Linux needs glibc."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
