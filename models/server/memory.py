"""Return free memory to the operating system."""

from __future__ import annotations

import contextlib
import ctypes


def give_back_memory() -> None:
    """Return memory that is free but kept for later by the C library. Does nothing where this is not possible."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
