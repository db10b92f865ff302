"""A copy of a job's log in a temporary file, so that memory does not grow with the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tracking.recording.unnamed_file import UnnamedFile
from training.contract.failures import repair_last_traceback

TAIL_LINES = 1_000
"""Lines that are kept in memory, which hold the traceback of a job that fails."""
TAIL_CHARACTERS = 2_000
"""Beginning of each of these lines that is kept."""


class LogCopy:
    """The lines of a log so far."""

    def __init__(self) -> None:
        self._lines = UnnamedFile()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.as_file = self._lines.as_file

    def append(self, lines: Sequence[str]) -> None:
        """Add lines."""
        self._lines.append(line.encode("utf-8", "replace") for line in lines)
        self._tail.extend(line[:TAIL_CHARACTERS] for line in lines[-TAIL_LINES:])

    def tail(self, count: int = TAIL_LINES) -> list[str]:
        """Return the last `count` lines. Long ones are cut, and a traceback that came in pieces is whole."""
        return repair_last_traceback(list(self._tail))[-count:]
