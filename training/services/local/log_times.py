"""When each line of a local log was written: marks of (time, bytes so far), beside the log. Standard library only.

A script's lines carry no time of their own. The marks give each line the time at which it was first seen, once and for
all, so that whoever reads the log, whenever, is told the same.
"""

from __future__ import annotations

import bisect
import contextlib
import struct
import time
from collections.abc import Iterable
from pathlib import Path

MARK = struct.Struct("<dQ")
INTERVAL_SECONDS = 0.2


class LogMarker:
    """Writes a mark whenever the log has grown since the last one."""

    def __init__(self, log: Path) -> None:
        self._log, self._marks, self._bytes = log, marks_file(log), 0
        self._marks.touch()

    def mark(self) -> None:
        """Look at the log's size now. Never raises: a disk that is full must not end the job."""
        with contextlib.suppress(OSError):
            size = self._log.stat().st_size
            if size > self._bytes:
                with self._marks.open("ab") as marks:
                    marks.write(MARK.pack(time.time(), size))
                self._bytes = size


def marks_file(log: Path) -> Path:
    """Return where the marks of a log are."""
    return log.with_name("log-times.bin")


class LogTimes:
    """The marks of a log, read."""

    def __init__(self, log: Path) -> None:
        file = marks_file(log)
        self._content = file.read_bytes() if file.exists() else None

    @property
    def marked_bytes(self) -> int | None:
        """How much of the log has its time; None for a log without marks."""
        if self._content is None:
            return None
        return self._mark(len(self) - 1)[1] if len(self) else 0

    def at(self, ends: Iterable[int], otherwise: float) -> list[float]:
        """Return when the lines ending at these bytes were written, seconds since the epoch; `otherwise` past all."""
        places = (bisect.bisect_left(range(len(self)), end, key=lambda at: self._mark(at)[1]) for end in ends)
        return [self._mark(place)[0] if place < len(self) else otherwise for place in places]

    def __len__(self) -> int:
        return len(self._content or b"") // MARK.size

    def _mark(self, at: int) -> tuple[float, int]:
        time, size = MARK.unpack_from(self._content or b"", at * MARK.size)
        return time, size
