"""Compute in advance the batch shapes that a training will use. Pure."""

from typing import Iterable, List, NamedTuple, Set

import numpy as np

from data.padding import Padding


class Shape(NamedTuple):
    """A batch shape."""

    rows: int
    """Rows, including those added as filler."""
    length: int
    """Tokens of each row, padding included."""
    is_masked: bool
    """True if the batch has padding. Without padding, models skip the attention mask, which is a different program."""


class Batches(NamedTuple):
    """Shapes of batches in order, one array element for each batch."""

    rows: np.ndarray
    """Rows, including those added as filler."""
    lengths: np.ndarray
    """Tokens of each row, padding included."""
    masked: np.ndarray
    """True for each batch with padding."""
    positions: np.ndarray
    """Positions that the model's layers compute: rows times length, or the tokens with padding `none`."""


def planned_batches(order: np.ndarray, lengths: np.ndarray, batch_size: int, padding: Padding) -> Batches:
    """Return the batches cut from `order`, which contains row numbers with duplicates (see `sampler`).

    `lengths` are the lengths of all rows.
    """
    starts = np.arange(0, len(order), batch_size)
    # A duplicate copies a row of the same batch, so it does not change the batch's lengths.
    ordered = lengths[order % len(lengths)]
    longest, shortest = np.maximum.reduceat(ordered, starts), np.minimum.reduceat(ordered, starts)
    rows = np.maximum(np.add.reduceat((order < len(lengths)).astype(int), starts), 1)
    padded = padding.lengths(longest, shortest)
    filled = np.full_like(rows, batch_size) if padding.fills_up else rows
    positions = filled * padded
    if padding.is_packed:
        # A batch of only duplicates keeps one of them.
        positions = np.maximum(np.add.reduceat(np.where(order < len(lengths), ordered, 0), starts), shortest)
    return Batches(filled, padded, shortest < padded, positions)


def planned_shapes(
    orders: Iterable[np.ndarray], lengths: np.ndarray, batch_size: int, max_batches: int, padding: Padding
) -> List[Shape]:
    """Return the distinct shapes of the batches cut from `orders`, smallest first.

    `orders` has one order for each epoch. Planning ends after `max_batches`.
    """
    shapes: Set[Shape] = set()
    for order in orders:
        cut = order[: max(max_batches, 0) * batch_size]
        if len(cut) == 0:
            break
        max_batches -= -(-len(cut) // batch_size)
        distinct = np.unique(np.stack(planned_batches(cut, lengths, batch_size, padding)[:3], axis=1), axis=0)
        shapes |= {Shape(int(n), int(length), bool(masked)) for n, length, masked in distinct}
    return sorted(shapes)


def step_positions(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, batches_per_step: int, padding: Padding
) -> np.ndarray:
    """Return the number of token positions in each optimizer step, in all processes (see `Batches.positions`).

    The last step may have fewer batches than the others.
    """
    positions = planned_batches(order, lengths, batch_size, padding).positions
    return np.asarray(np.add.reduceat(positions, np.arange(0, len(positions), batches_per_step)))


def representatives(shapes: Iterable[Shape]) -> List[Shape]:
    """Return the shapes that a compiler with symbolic lengths must run.

    These are the smallest and the largest of each group with the same row count and `is_masked`.
    """
    groups: "dict[tuple[int, bool], list[Shape]]" = {}
    for shape in shapes:
        groups.setdefault((shape.rows, shape.is_masked), []).append(shape)
    return sorted({extreme for group in groups.values() for extreme in (min(group), max(group))}, reverse=True)
