"""One planted fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A change of one place, and the test that must find it."""

    file: str
    """Path of the file, relative to the root."""
    old: str
    """Text that occurs once in the file."""
    new: str
    """Text in its place."""
    meaning: str
    """Consequence of the fault, in one sentence."""
    test: str
    """Test that fails with the fault and passes without."""
