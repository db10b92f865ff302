"""Convert Arrow record batches to rows, and limit the text that they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from training.staging.formats.expansion import Expansion

MAX_BATCH_BYTES = 16 * 1024**2
"""Text of a batch that is converted at once. Rows of larger batches are converted one by one."""
MAX_BATCH_ROWS = 1_000


def batch_rows(batch: Any, columns: Sequence[str], expansion: Expansion) -> Iterator[list[Any]]:
    """Yield the values of `columns` of each row. Raises InputError if the rows exceed the limit."""
    size = sum(_text_bytes(batch.column(name)) for name in columns)
    expansion.add(size, batch.num_rows)
    step = MAX_BATCH_ROWS if size <= MAX_BATCH_BYTES else 1
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        for values in zip(*(part.column(name).to_pylist() for name in columns), strict=True):
            yield list(values)


def _text_bytes(array: Any) -> int:
    """Return the bytes of the values when each is stored by itself, not as an entry of a dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.DictionaryArray):
        return int(pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0)
    if isinstance(array, pa.StructArray):
        return sum(map(_text_bytes, array.flatten()))
    if isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray | pa.MapArray):
        return _text_bytes(array.flatten())
    return int(array.nbytes)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
