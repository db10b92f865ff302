"""Sizes as text."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Return a number of bytes as text with three digits, such as `900 bytes`, `1.5 KiB` or `12 GiB`."""
    size, units = float(size_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:.0f} {units[0]}"
