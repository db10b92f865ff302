"""Limits on what a small file may become in memory: a compressed file can contain a million times its size."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from training.contract.errors import InputError
from training.contract.sizes import size_text

DEFAULT_MAX_EXPANSION = 20.0
"""Text compresses to a third or a tenth of its size. Only repeated text compresses to less than a twentieth."""
MIN_LIMIT_BYTES = 40 * 1024**2
"""Every file may contain this much."""
ROW_BYTES = 100
"""Counted for each row in addition to its text, because empty rows need memory and time too."""
MIN_VALUES = 1_000_000
BYTES_PER_VALUE = 16
"""Text may have `MIN_VALUES` values and one more for this many bytes. Each value in JSON or CSV needs up to 100 bytes
of memory. Data has one value in 20 bytes or more; a long list of one-digit numbers reaches the limit at 2 MB."""


class Expansion:
    """Counts the bytes of the rows that one file contains, up to a limit."""

    def __init__(
        self,
        path: Path,
        maximum: float = DEFAULT_MAX_EXPANSION,
        *,
        keeps_rows: bool = True,
        size: int | None = None,
        total: Expansion | None = None,
    ):
        """Limit the content of the file `path` to `maximum` times its size.

        Rows are counted only if the reader keeps them (`keeps_rows`). A reader that needs one at a time has no limit.
        `size` replaces the size of the file in bytes. What is counted counts towards `total`, too.
        """
        self.path = path
        self.maximum = maximum
        self.keeps_rows = keeps_rows
        self._bytes = 0
        self._size, self._total = size, total

    @cached_property
    def limit(self) -> int:
        """Largest number of bytes."""
        return max(MIN_LIMIT_BYTES, int(self.maximum * self._stored_bytes()))

    def add(self, size: int, rows: int = 1) -> None:
        """Count rows of together `size` bytes. Raises InputError above the limit."""
        self._bytes += size + rows * ROW_BYTES
        if self.keeps_rows and self._bytes > self.limit:
            raise self.error()
        if self._total is not None:
            self._total.add(size, rows)

    def error(self) -> InputError:
        """Return the error for a file that contains more than the limit."""
        return InputError(
            f"{self.path} has {size_text(self._stored_bytes())}, but contains more than {size_text(self.limit)}; "
            "if that is right, decompress it, or increase data.max_expansion"
        )

    def _stored_bytes(self) -> int:
        return self.path.stat().st_size if self._size is None else self._size


def check_values(location: str, text: str, delimiter: str | None = None) -> None:
    """Raise InputError for more values than the text's length allows. They are separated by `delimiter`, or JSON."""
    if len(text) <= MIN_VALUES:
        return
    limit = MIN_VALUES + len(text) // BYTES_PER_VALUE
    count = text.count(delimiter) if delimiter else sum(map(text.count, "[{,"))
    if count > limit:
        raise InputError(
            f"{location} has {count:,} values, but {size_text(len(text))} of text may have at most {limit:,}"
        )
