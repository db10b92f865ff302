"""Log the progress of an upload: a line every few seconds, and a summary at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

QUIET_SECONDS = 5.0
"""Minimum time between two progress lines."""


class UploadProgress:
    """Thread-safe counter of uploaded bytes that logs its progress."""

    def __init__(
        self, total_bytes: int, uri: str, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`uri` is the target of the upload, for messages."""
        self._total, self._uri, self._log, self._clock = total_bytes, uri, log, clock
        self._sent = self._skipped = 0
        self._logged_at = clock()
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes that were uploaded."""
        with self._lock:
            self._sent += count
            if self._clock() - self._logged_at >= QUIET_SECONDS:
                self._logged_at = self._clock()
                self._log(f"  {size(self._sent + self._skipped)} of {size(self._total)} uploaded")

    def skip(self, count: int) -> None:
        """Count bytes that an earlier upload had already uploaded."""
        with self._lock:
            self._skipped += count

    def finish(self) -> None:
        """Log the number of bytes that were uploaded."""
        skipped = f" ({size(self._skipped)} were already uploaded)" if self._skipped else ""
        self._log(f"Uploaded {size(self._sent)} to {self._uri}{skipped}")


def size(count: float) -> str:
    """Return a number of bytes as text, such as 900 bytes, 1.5 KiB or 12.0 GiB."""
    if count < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:,.1f} GiB"
