"""What a person reads while a folder is uploaded: nothing of what is quick, a line now and then of what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

QUIET_SECONDS = 5.0
"""Between two lines."""


class Uploading:
    """Is told of bytes as they leave, from any thread."""

    def __init__(
        self, total: int, place: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`total` is in bytes; `place` is where they go."""
        self._total, self._place, self._say, self._clock = total, place, say, clock
        self._sent = self._there = 0
        self._said_at = clock()
        self._lock = threading.Lock()

    def sent(self, count: int) -> None:
        """Say that bytes have left."""
        with self._lock:
            self._sent += count
            if self._clock() - self._said_at >= QUIET_SECONDS:
                self._said_at = self._clock()
                self._say(f"  {size(self._sent + self._there)} of {size(self._total)} uploaded")

    def found(self, count: int) -> None:
        """Say that bytes were there from an earlier upload."""
        with self._lock:
            self._there += count

    def ended(self) -> None:
        """Say what was uploaded."""
        kept = f", beside {size(self._there)} from an earlier upload" if self._there else ""
        self._say(f"Uploaded {size(self._sent)}{kept} to {self._place}")


def size(count: float) -> str:
    """Return a number of bytes in the largest unit that leaves a whole one: 900 bytes, 1.5 KiB, 12.0 GiB."""
    if count < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:,.1f} GiB"
