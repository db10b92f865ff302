"""Batches of rows for a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

R = TypeVar("R")

MAX_CHARACTERS = 500_000
"""Text of a batch. A tokenizer needs about 160 bytes of memory for each character of a batch."""


def batches(rows: Iterable[R], characters: Callable[[R], int], max_rows: int) -> Iterator[list[R]]:
    """Yield consecutive rows: at most `max_rows`, with at most `MAX_CHARACTERS` or one row."""
    batch: list[R] = []
    total = 0
    for row in rows:
        size = characters(row)
        if batch and (len(batch) == max_rows or total + size > MAX_CHARACTERS):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size
    if batch:
        yield batch
