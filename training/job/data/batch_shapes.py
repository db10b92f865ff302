"""The shapes of batch that a training will meet, worked out beforehand. Pure."""

from typing import Iterable, List, NamedTuple, Set

import numpy as np

from data.padding import Padding


class Shape(NamedTuple):
    """One shape of batch."""

    rows: int
    """Rows, those that fill up included."""
    length: int
    """Tokens of each row, padding included."""
    is_masked: bool
    """Whether the batch has padding: models skip the attention mask where it has none, which is another program."""


class Batches(NamedTuple):
    """Batches in their order, one number each."""

    rows: np.ndarray
    """Rows, those that fill up included."""
    lengths: np.ndarray
    """Tokens of each row, padding included."""
    masked: np.ndarray
    """Whether the batch has padding."""


def planned_batches(order: np.ndarray, lengths: np.ndarray, batch_size: int, padding: Padding) -> Batches:
    """Return the batches cut from `order`, row numbers with repeats (see `sampler`); `lengths` are of all rows."""
    starts = np.arange(0, len(order), batch_size)
    # Repeats are of rows in the same batch: they change no length.
    ordered = lengths[order % len(lengths)]
    longest, shortest = np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
    rows = np.maximum(np.add.reduceat((order < len(lengths)).astype(int), starts), 1)
    padded = padding.lengths(longest, shortest)
    return Batches(np.full_like(rows, batch_size) if padding.is_static else rows, padded, shortest < padded)


def planned_shapes(
    orders: Iterable[np.ndarray], lengths: np.ndarray, batch_size: int, most_batches: int, padding: Padding
) -> List[Shape]:
    """Return the shapes that the batches cut from `orders`, one an epoch, have, smallest first.

    The plan ends after `most_batches`.
    """
    shapes: Set[Shape] = set()
    for order in orders:
        cut = order[: max(most_batches, 0) * batch_size]
        if len(cut) == 0:
            break
        most_batches -= -(-len(cut) // batch_size)
        found = np.unique(np.stack(planned_batches(cut, lengths, batch_size, padding), axis=1), axis=0)
        shapes |= {Shape(int(n), int(length), bool(masked)) for n, length, masked in found}
    return sorted(shapes)


def step_positions(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, batches_a_step: int, padding: Padding
) -> np.ndarray:
    """Return the positions of each optimizer step of an epoch over all processes: rows times tokens, padding included.

    The last step takes the batches that are left.
    """
    batches = planned_batches(order, lengths, batch_size, padding)
    positions = batches.rows * batches.lengths
    return np.asarray(np.add.reduceat(positions, np.arange(0, len(positions), batches_a_step)))


def representatives(shapes: Iterable[Shape]) -> List[Shape]:
    """Return the shapes that a compiler with symbolic lengths has to see: per row count and mask, the extremes."""
    groups: "dict[tuple[int, bool], list[Shape]]" = {}
    for shape in shapes:
        groups.setdefault((shape.rows, shape.is_masked), []).append(shape)
    return sorted({extreme for group in groups.values() for extreme in (min(group), max(group))}, reverse=True)
