"""Text that is cut to fit."""

from __future__ import annotations


def short(label: str, limit: int = 40) -> str:
    """Return a label cut to `limit` characters."""
    return label if len(label) <= limit else f"{label[: limit - 1]}…"
