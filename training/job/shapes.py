"""The shapes of batch that a training will meet, worked out beforehand. Pure."""

from typing import Iterable, List, NamedTuple, Set

import numpy as np

from padding import Padding


class Shape(NamedTuple):
    """One shape of batch."""

    rows: int
    """Rows, those that fill up included."""
    length: int
    """Tokens of each row, padding included."""
    is_masked: bool
    """Whether the batch has padding: models skip the attention mask where it has none, which is another program."""


def planned_shapes(
    orders: Iterable[np.ndarray], lengths: np.ndarray, batch_size: int, most_batches: int, padding: Padding
) -> List[Shape]:
    """Return the shapes that the batches cut from `orders` have, smallest first.

    `orders` holds the row numbers of each epoch, with repeats (see `sampler`), `lengths` the tokens of each row. The
    plan ends after `most_batches`.
    """
    shapes: Set[Shape] = set()
    for order in orders:
        starts = np.arange(0, len(order), batch_size)[: max(most_batches, 0)]
        most_batches -= len(starts)
        if len(starts) == 0:
            break
        planned = order[: starts[-1] + batch_size]
        # Repeats are of rows in the same batch: they change no length.
        ordered = lengths[planned % len(lengths)]
        longest, shortest = np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
        rows = np.maximum(np.add.reduceat((planned < len(lengths)).astype(int), starts), 1)
        batch_rows = np.full_like(rows, batch_size) if padding.is_static else rows
        padded = padding.lengths(longest, shortest)
        found = np.unique(np.stack([batch_rows, padded, shortest < padded], axis=1), axis=0)
        shapes |= {Shape(int(n), int(length), bool(masked)) for n, length, masked in found}
    return sorted(shapes)


def representatives(shapes: Iterable[Shape]) -> List[Shape]:
    """Return the shapes that a compiler with symbolic lengths has to see: per row count and mask, the extremes."""
    groups: "dict[tuple[int, bool], list[Shape]]" = {}
    for shape in shapes:
        groups.setdefault((shape.rows, shape.is_masked), []).append(shape)
    return sorted({extreme for group in groups.values() for extreme in (min(group), max(group))}, reverse=True)
