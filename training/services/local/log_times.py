"""Times of the lines in a local log, stored in a file beside the log. Standard library only.

The lines that a script prints have no times. Therefore marks of (time, log size in bytes) are written while the job
runs. They give each line the time at which it first appeared, which is the same for every reader.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from training.state.regular_files import read_regular

MARK = struct.Struct("<dQ")
INTERVAL_SECONDS = 0.2
_MAX_MARKS_BYTES = 2**30
"""Size of the marks of 155 days."""


class LogMarker:
    """Writer of a mark each time the log has grown."""

    def __init__(self, log: Path) -> None:
        self._log, self._marks, self._bytes = log, marks_file(log), 0
        with contextlib.suppress(OSError):  # a full disk
            self._marks.touch()

    def mark(self) -> None:
        """Write a mark if the log has grown. Never raises OSError: a full disk must not end the job."""
        with contextlib.suppress(OSError):
            size = self._log.stat().st_size
            if size > self._bytes:
                # A script may have replaced the file by a pipe, which would block.
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(self._marks, flags), "ab") as marks:
                    marks.write(MARK.pack(time.time(), size))
                self._bytes = size


def marks_file(log: Path) -> Path:
    """Return the path of a log's marks."""
    return log.with_name("log-times.bin")


class LogTimes:
    """Reader of a log's marks."""

    def __init__(self, log: Path) -> None:
        file = marks_file(log)
        self._content = None
        with contextlib.suppress(OSError):  # a damaged file is like a missing one
            self._content = read_regular(file, _MAX_MARKS_BYTES)

    @property
    def marked_bytes(self) -> int | None:
        """Number of bytes of the log whose time is known; None for a log without marks."""
        if self._content is None:
            return None
        return self._mark(len(self) - 1)[1] if len(self) else 0

    def at(self, ends: Iterable[int], otherwise: float) -> list[float]:
        """Return the times of the lines whose line ends are at these byte positions, in seconds since the epoch.

        Lines after the last mark get the time `otherwise`.
        """
        indexes = (bisect.bisect_left(range(len(self)), end, key=lambda number: self._mark(number)[1]) for end in ends)
        return [self._mark(index)[0] if index < len(self) else otherwise for index in indexes]

    def __len__(self) -> int:
        return len(self._content or b"") // MARK.size

    def _mark(self, number: int) -> tuple[float, int]:
        time, size = MARK.unpack_from(self._content or b"", number * MARK.size)
        return time, size
