"""Lists, plurals and labels as text."""

from __future__ import annotations

from collections.abc import Sequence


def short(label: str, limit: int = 40) -> str:
    """Return a label cut to `limit` characters."""
    return label if len(label) <= limit else f"{label[: limit - 1]}…"


def joined(parts: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(count: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`, `1,000 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case and the rest unchanged."""
    return text[:1].upper() + text[1:]
