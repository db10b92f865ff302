"""Draw the rows that are set aside for validation. One byte a row, and four more while rows are drawn."""

from __future__ import annotations

import math
import random
from array import array


def validation_count(rows: int, share: float) -> int:
    """Return the number of validation rows of a class: the rounded share, but at least one row on each side.

    A class of one row has none.
    """
    return min(max(round(rows * share), 1), rows - 1)


def drawn_mask(generator: random.Random, rows: int, count: int) -> bytearray:
    """Return a mask with a one for each row number in `generator.sample(range(rows), count)`.

    It draws the same rows as `sample`, which needs 50 bytes for each row. Data that an earlier version staged must be
    split the same way.
    """
    mask = bytearray(rows)
    if rows > _largest_pool(count):
        for _ in range(count):
            row = generator.randrange(rows)
            while mask[row]:
                row = generator.randrange(rows)
            mask[row] = 1
        return mask
    pool = array("I", range(rows))
    for at in range(count):
        drawn = generator.randrange(rows - at)
        mask[pool[drawn]] = 1
        pool[drawn] = pool[rows - at - 1]
    return mask


def _largest_pool(count: int) -> int:
    """Return the number of rows up to which `random.sample` copies them. It compares the memory of list and set."""
    return 21 + (4 ** math.ceil(math.log(count * 3, 4)) if count > 5 else 0)
