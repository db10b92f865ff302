"""Limits on what a small file may become in memory: a compressed file can contain a million times its size."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from training.contract.errors import InputError
from training.contract.plain_text import size_text

DEFAULT_MAX_EXPANSION = 20.0
"""Text compresses to a third or a tenth of its size. Only repeated text compresses to less than a twentieth."""
MIN_LIMIT_BYTES = 40 * 1024**2
"""Every file may contain this much."""
ROW_BYTES = 100
"""Counted for each row in addition to its text, because empty rows need memory and time too."""


class Expansion:
    """Counts the bytes of the rows that one file contains, up to a limit."""

    def __init__(self, path: Path, maximum: float = DEFAULT_MAX_EXPANSION, *, keeps_rows: bool = True):
        """Limit the content of the file `path` to `maximum` times its size.

        Rows are counted only if the reader keeps them (`keeps_rows`). A reader that needs one at a time has no limit.
        """
        self._path, self._maximum, self._keeps_rows = path, maximum, keeps_rows
        self._bytes = 0

    @cached_property
    def limit(self) -> int:
        """Largest number of bytes."""
        return max(MIN_LIMIT_BYTES, int(self._maximum * self._path.stat().st_size))

    def add(self, size: int, rows: int = 1) -> None:
        """Count rows of together `size` bytes. Raises InputError above the limit."""
        self._bytes += size + rows * ROW_BYTES
        if self._keeps_rows and self._bytes > self.limit:
            raise self.error()

    def error(self) -> InputError:
        """Return the error for a file that contains more than the limit."""
        return InputError(
            f"{self._path} has {size_text(self._path.stat().st_size)}, but contains more than {size_text(self.limit)}; "
            "if that is right, decompress it, or increase data.max_expansion"
        )
