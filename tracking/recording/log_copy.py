"""A copy of a job's log in a temporary file, so that memory does not grow with the log."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TAIL_LINES = 1_000
"""Lines that are kept in memory, which hold the traceback of a job that fails."""
TAIL_CHARACTERS = 2_000
"""Beginning of each of these lines that is kept."""


class LogCopy:
    """The lines of a log so far. The file has no name, so it disappears with the process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, self._file.close)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def append(self, lines: Sequence[str]) -> None:
        """Add lines."""
        self._file.writelines(line.encode("utf-8", "replace") + b"\n" for line in lines)
        self._tail.extend(line[:TAIL_CHARACTERS] for line in lines[-TAIL_LINES:])

    def tail(self, count: int = TAIL_LINES) -> list[str]:
        """Return the last `count` lines. Long ones are cut."""
        return list(self._tail)[-count:]

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Yield the path of a file called `name` with all lines. It is deleted afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            self._file.seek(0)
            with path.open("wb") as file:
                shutil.copyfileobj(self._file, file)
            yield path
