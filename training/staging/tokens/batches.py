"""Batches of rows for a tokenizer, and their encodings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")
E = TypeVar("E")

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


def encoded_batches(read: Iterable[list[R]], encode: Callable[[list[R]], E]) -> Iterator[tuple[list[R], E]]:
    """Yield each batch with its encoding. A thread encodes a batch while the next one is read.

    Up to three batches are in memory: one read, one encoded, one used. Tokenizers compute without Python's lock.
    """
    with ThreadPoolExecutor(1) as thread:
        under_way: deque[tuple[list[R], Future[E]]] = deque()
        for batch in read:
            under_way.append((batch, thread.submit(encode, batch)))
            if len(under_way) == 2:
                first, encoding = under_way.popleft()
                yield first, encoding.result()
        for batch, encoding in under_way:
            yield batch, encoding.result()
