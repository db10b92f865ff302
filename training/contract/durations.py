"""Durations as text."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """Return a duration as text with one unit, such as `41 s`, `7 min` or `2.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
