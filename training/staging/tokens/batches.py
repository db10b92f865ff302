"""Batches of texts for a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_CHARACTERS = 1_000_000
"""Text of a batch. A tokenizer needs about 160 bytes of memory for each character of a batch."""


def batches(characters: Sequence[int], max_rows: int) -> Iterator[slice]:
    """Yield consecutive slices of rows with `characters` each: at most `max_rows`, and `MAX_CHARACTERS` or one row."""
    start = total = 0
    for row, size in enumerate(characters):
        if row > start and (row - start == max_rows or total + size > MAX_CHARACTERS):
            yield slice(start, row)
            start, total = row, 0
        total += size
    if start < len(characters):
        yield slice(start, len(characters))
